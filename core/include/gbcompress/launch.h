#pragma once
/// Which rank of how many this process is, where the ranks meet, and messages of one rank of
/// several. No LibTorch.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Who started this process, in the order of precedence; the first that speaks is believed.
enum class Launcher : std::uint8_t {
  kFlags,     ///< --rank, --world, --local-rank, --master
  kTorchrun,  ///< RANK, WORLD_SIZE (torchrun, or set by hand)
  kOpenMpi,   ///< OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
  kPmi,       ///< PMI_RANK, PMI_SIZE (Hydra of MPICH, Intel MPI)
  kSlurm,     ///< SLURM_PROCID, SLURM_NTASKS, inside a step only (SLURM_STEP_ID)
  kSingle,    ///< no launcher: one process
};

/// What the command line said; every field as it was typed.
struct LaunchFlags {
  std::optional<std::string> rank, world, local_rank;
  std::optional<std::string> master;  ///< "HOST:PORT", "[::1]:PORT"
};

struct Launch {
  Launcher launcher = Launcher::kSingle;
  int rank = 0;                                ///< 0 <= rank < world
  int world = 1;                               ///< 1 to kMaxWorld
  std::optional<int> local_rank, local_world;  ///< on this machine, where the launcher says so
  std::string master_host;                     ///< empty for a world of 1
  int master_port = 0;                         ///< 1 to 65535; 0 for a world of 1
  /// The launcher itself serves the store (TORCHELASTIC_USE_AGENT_STORE=True): every rank, 0 too,
  /// is a client of it. Otherwise rank 0 serves.
  bool agent_store = false;
  /// A program that stays as long as the ranks run has started them, and they end with it. Not so
  /// for ranks that a shell started one by one: the shell may well go.
  bool has_launcher = false;
  std::string job;  ///< tells this start from others that use the same store, restarts too

  /// Whether the launcher says that all ranks run on this machine.
  bool on_one_machine() const noexcept { return world == 1 || local_world == world; }
};

inline constexpr int kMaxWorld = 65'536;

/// The value of a variable, null where it is not set.
using Environment = std::function<const char*(const char* name)>;

/// Reads flags, then the environment. Ranks of one machine meet at 127.0.0.1 where nothing else is
/// said; the port then comes from the job's number, or is 29500. MASTER_ADDR and MASTER_PORT are
/// honored under every launcher.
/// @throws Error(kUsage): a rank without a world or the reverse, something that is no number, a
/// rank
///         outside the world, a port outside 1 to 65535, no place to meet
Launch read_launch(const LaunchFlags& flags = {});
Launch read_launch(const LaunchFlags& flags, const Environment& environment);

/// The GPU of this rank: its number on this machine.
/// @param gpus  how many this machine shows
/// @throws Error(kUsage) where there are fewer than ranks, or where the launcher does not tell
/// ranks
///         of one machine apart
int pick_gpu(const Launch& launch, int gpus);

/// Tells torchrun why this process ends: writes {"message": {"message": TEXT, "extraInfo":
/// {"py_callstack": TEXT, "timestamp": "SECONDS"}}} to the file that TORCHELASTIC_ERROR_FILE names,
/// whole or not at all. Nothing is done where the variable is not set. Never throws: it runs while
/// something worse is being told.
/// @return whether a file was written
bool write_error_file(std::string_view message) noexcept;
bool write_error_file(std::string_view message, const Environment& environment) noexcept;

// Messages of one rank of several. No LibTorch.

/// Call once, as soon as the rank is known. [not thread-safe against the others]
void set_log_rank(int rank, int world) noexcept;
/// "[rank 2] ", or "" where there is one rank.
std::string rank_prefix();
/// Whether this rank draws progress and tells what concerns all: rank 0 does.
bool speaks_for_all() noexcept;
/// One line to stderr, "gbcompress: [rank 2] TEXT", in one piece, so that lines of several ranks on
/// one terminal do not mix. [thread-safe]
void log_line(std::string_view text) noexcept;

/// Ends the process of a rank that failed: flushes the standard streams and skips the static
/// destructors, of which LibTorch has a tenth of a second's worth. The other ranks may be waiting
/// for this one's processor.
[[noreturn]] void end_rank(int status) noexcept;

}  // namespace gbcompress
