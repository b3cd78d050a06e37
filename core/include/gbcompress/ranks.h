#pragma once
/// The ranks of one job: which of how many this process is, messages, collectives, sums in a fixed
/// order. LibTorch's class is only named: whoever calls a collective includes it.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gbcompress/traffic.h"
#include "gbcompress/version.h"

namespace GBC_API at {
class Tensor;
}

namespace GBC_API gbcompress {

// Which rank of how many this process is, and where the ranks meet. No LibTorch.

/// Who started this process, in the order of precedence; the first that speaks is believed.
enum class Launcher : std::uint8_t {
  kFlags,     ///< --rank, --world, --local-rank, --master
  kTorchrun,  ///< RANK, WORLD_SIZE (torchrun, or set by hand)
  kOpenMpi,   ///< OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
  kPmi,       ///< PMI_RANK, PMI_SIZE (Hydra of MPICH, Intel MPI)
  kSlurm,     ///< SLURM_PROCID, SLURM_NTASKS, inside a step only (SLURM_STEP_ID)
  kSingle,    ///< no launcher: one process
};
std::string_view launcher_name(Launcher launcher) noexcept;  ///< "torchrun", "Slurm", ...

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

// Sums whose bits do not depend on how many ranks compute them. No LibTorch.
//
// The work of a step is cut into a fixed number of shards, a power of two, whatever the world.
// Shard sums are leaves of one binary tree, and every inner node is left + right in float32. A
// rank owns neighboring leaves and adds up the largest whole subtrees among them; the nodes that
// are left are exchanged and added in the same tree. For a power-of-two world each rank sends one
// node, so that this costs no more bytes than an ordinary all_reduce.

/// A run of shards: [first, first + count).
struct ShardRange {
  int first = 0;
  int count = 0;
  bool operator==(const ShardRange&) const = default;
};

inline constexpr int kMaxShards = 4096;

/// The shards of one rank; all ranks' ranges follow each other and differ in size by one at most.
/// @throws Error(kUsage): `shards` is no power of two up to kMaxShards, or fewer than ranks
ShardRange shards_of(int rank, int world, int shards);

/// The largest whole subtrees that make up a range, from left to right.
std::vector<ShardRange> subtrees(ShardRange range);

class FixedSum {
 public:
  /// @param elements  of one shard's sum, at least 0
  /// @param own  this rank's shards
  FixedSum(std::int64_t elements, ShardRange own);
  /// The next shard of this rank. Memory: one buffer for each open subtree, log2(shards) + 1 at
  /// most.
  /// @throws Error(kShapeMismatch), Error(kUsage) when all are there already
  void add(std::span<const float> shard);
  std::int64_t elements() const noexcept { return elements_; }
  ShardRange own() const noexcept { return own_; }
  bool complete() const noexcept { return added_ == own_.count; }
  /// The sums of subtrees(own()). @throws Error(kUsage) before all shards are there
  const std::vector<std::vector<float>>& nodes() const;

 private:
  std::int64_t elements_;
  ShardRange own_;
  int added_ = 0;
  std::vector<ShardRange> open_;
  std::vector<std::vector<float>> sums_;
};

/// Adds up all nodes of the tree, in shard order, to its root.
/// @param nodes  consecutive subtrees that cover all shards, each with its sum; sums are used as
///               scratch memory
/// @param into  the root's sum
/// @throws Error(kShapeMismatch) where they do not make up one tree
void add_tree(std::vector<std::pair<ShardRange, std::span<float>>> nodes, std::span<float> into);

// The ranks of one job: collectives, agreement, and failing together.
//
// A group is opened from a Launch and lives as long as the work. A world of
// 1 needs no store and no network: every collective is then a no-op.
//
// Whatever ends one rank before finish() (killed, an exception, an early exit, a stop signal, a
// lost machine) ends all: the next or the blocked collective of every other rank throws
// Error(kFailure, "rank 2 failed first: ITS CAUSE"). A rank whose main thread does not get there
// within half a second is ended with status 1 after printing the same sentence; it may be
// computing, and Gloo has no other way of giving up. docs/explanation/ranks.md has the whole story.

enum class RankBackend : std::uint8_t {
  kGloo,  ///< CPU tensors
  kNccl,  ///< the same tensors, copied through one GPU a rank: NCCL in libgbcompress_cuda.so
};
using DistBackend [[deprecated("use RankBackend")]] = RankBackend;

struct GroupOptions {
  /// How long to wait for a rank that is silent, or that does not enter a collective. 100 ms to 24
  /// h.
  std::chrono::milliseconds timeout{120'000};
  /// How long the start may take; 0: as `timeout`.
  std::chrono::milliseconds start_timeout{0};
  /// Which of this machine's addresses other ranks connect to: "" for loopback only, an address, a
  /// network interface, or "any". Needed as soon as ranks run on several machines.
  std::string listen;
  RankBackend backend = RankBackend::kGloo;
  /// Of kNccl; empty: libgbcompress_cuda.so beside libgbcompress.so.
  std::filesystem::path module;
};

/// What this machine has for RankBackend::kNccl, in words.
struct NcclStatus {
  std::string versions;  ///< "header 2.28.9, library 2.28.9"; empty: no module, or one without NCCL
  std::string problem;   ///< the two do not fit together
};
NcclStatus nccl_status(const std::filesystem::path& module = {});

struct GroupState;

/// A collective or a transfer under way. The tensors it was given must not be touched until wait()
/// returns.
class [[nodiscard]] Pending {
 public:
  Pending();  ///< one that is complete
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Returns when the result is there. Every Pending must be waited for once, in any order; later
  /// calls return at once.
  /// @throws Error(kFailure) naming the first failed rank
  void wait();

 private:
  friend class Group;
  struct Impl;
  explicit Pending(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Something all ranks must have in common.
struct Fact {
  std::string name;   ///< "the binary", "plugin linear", "the settings"
  std::string value;  ///< text or a digest; at most 1 MiB
  /// What to do where it differs; empty: to start all ranks with the same program and settings.
  std::string remedy = {};
};

/// Tensors are contiguous and on the CPU. Collectives of one group are called by one thread.
/// "[collective]" below: every rank, in the same order, with the same sizes.
/// All throw Error(kFailure) naming the first failed rank, Error(kUsage) for a wrong rank, a tensor
/// of another device, type or layout.
class Group {
 public:
  /// Meets the other ranks. In a world above 1, SIGPIPE is ignored from then on where it had its
  /// default action. [collective]
  /// @throws Error(kFailure) within the start's timeout (plus 2 s): no response from the master,
  /// its port
  ///         taken, two processes with one rank, ranks that did not come (named), ranks that were
  ///         told different worlds; Error(kUsage): several machines without `listen`, an option out
  ///         of range; also NCCL without its module, without its library or with an older one,
  ///         without a GPU, with fewer GPUs than ranks on this machine;
  ///         Error(kInterrupted)
  static std::unique_ptr<Group> open(const Launch& launch, const GroupOptions& options = {});
  /// Without finish() before it, the other ranks fail.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const noexcept;
  int world() const noexcept;

  /// Every rank's tensor becomes the sum over all ranks. float32. The bits are the same on every
  /// rank but depend on the world; all_reduce(FixedSum) gives bits that do not. [collective]
  Pending all_reduce(at::Tensor tensor);
  /// Every rank ends up with the sum of one piece: `into` on rank r becomes the sum over all ranks
  /// of elements [pieces[0] + ... + pieces[r-1], ... + pieces[r]) of `tensor`. Summed in rank
  /// order.
  /// @param tensor  float32, [sum of pieces]; unchanged
  /// @param pieces  elements of each rank, by rank; 0 is allowed
  /// @param into  float32, [pieces[rank()]]; may be that part of `tensor` itself
  /// [collective]
  Pending reduce_scatter(const at::Tensor& tensor, std::span<const std::int64_t> pieces,
                         at::Tensor into);
  /// The owner's tensor becomes the sum over all ranks, in rank order; the others keep theirs.
  /// float32. [collective]
  Pending reduce_to(at::Tensor tensor, int owner);
  /// Every rank's tensor becomes that of `from`. Any element type. [collective]
  Pending broadcast(at::Tensor tensor, int from);
  /// The reverse of reduce_scatter, in place: rank r has filled in its piece of `tensor`, and all
  /// ranks get all pieces. Any element type. [collective]
  Pending all_gather(at::Tensor tensor, std::span<const std::int64_t> pieces);
  /// From this rank to one other, which calls receive(). Any element type. Only these two ranks
  /// call, each the same number of times for the other; transfers from one rank to another keep
  /// their order. With RankBackend::kNccl, ranks begin their transfers and collectives in one
  /// order.
  /// @param to  another rank
  /// @throws Error(kUsage) also for this rank itself
  Pending send(const at::Tensor& tensor, int to);
  /// @param into    as many bytes as are sent
  /// @param from  another rank
  Pending receive(at::Tensor into, int from);
  /// What every rank said, by rank; sizes may differ. At most 16 MiB each. [collective]
  std::vector<std::string> all_gather(std::string_view mine);
  /// Sums over all shards of all ranks, with bits that do not depend on the world.
  /// @param sum  complete; its ranges are shards_of(rank, world, shards)
  /// @param into  float32, [sum.elements()]
  /// [collective]
  void all_reduce(const FixedSum& sum, int shards, at::Tensor into);
  void barrier();       ///< [collective]
  bool all(bool mine);  ///< whether it is true on every rank [collective]
  bool any(bool mine);  ///< whether it is true on some rank [collective]

  /// For one thread in the background, beside the collectives of the main one: a function that
  /// returns, on every rank, whether all ranks passed true; also a barrier. It goes through the
  /// store, so it is slow (some milliseconds) and independent of Gloo. Its calls are [collective]
  /// among the background threads; it throws Error(kFailure) once a rank has failed.
  /// @param name  different for every such function of a group
  std::function<bool(bool)> background_agreement(std::string name);

  /// All ranks compare. The error is the same on every rank and names the fact, two ranks that
  /// differ and what they have. [collective]
  /// @throws Error(kUsage)
  void agree(std::span<const Fact> facts);
  void agree(std::string name, std::string value);

  /// @throws Error(kFailure) once another rank has failed; for long work without collectives.
  /// [local]
  void check();
  /// Tells the others that this rank fails, and why, before its exception ends it. [local]
  void fail(std::string_view cause) noexcept;
  /// The orderly end: returns when every rank is here. After it, no collective may follow. Has no
  /// time limit while all ranks run: rank 0 may have a file to write first. [collective]
  void finish();

  /// Sent by this rank so far. [local]
  const Traffic& traffic() const noexcept;

 private:
  explicit Group(std::shared_ptr<GroupState> state);
  std::shared_ptr<GroupState> state_;
};

/// Every rank's tensors become their means over all ranks, in place: gradients, before each rank
/// makes the same step. Small tensors travel together. Any floating type and layout; sums are
/// float32. [collective]
/// @throws Error(kUsage) for a tensor that is undefined, not floating-point or not on the CPU
void average(Group& group, std::vector<at::Tensor> tensors);

/// Runs a rank's work: what it throws is reported to the other ranks, then rethrown; after it,
/// finish().
template <typename Work>
void run_together(Group& group, Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw;
  } catch (...) {
    group.fail("an unknown exception");
    throw;
  }
  group.finish();
}

}  // namespace gbcompress
