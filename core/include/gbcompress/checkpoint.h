#pragma once
/// Checkpoints on disk (checkpoints.md): one folder a checkpoint, one shard a rank, there as a
/// whole or not at all. LibTorch-free; what the bytes of a section mean is the caller's affair.

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

inline constexpr std::uint32_t kCheckpointVersion = 1;

/// What a checkpoint belongs to, by name: digests of model and data, one entry a setting. At most
/// 10,000; names of 1 to 512 bytes of UTF-8 without control characters, values of at most 1 MiB.
using CheckpointFacts = std::map<std::string, std::string>;

/// Named bytes. Names as those of facts, each once in a shard.
struct CheckpointSection {
  std::string name;
  std::vector<std::byte> bytes;
};

/// The processes that save or resume together.
struct CheckpointRanks {
  int rank = 0;
  int world = 1;  ///< 1 to 65,536
  /// The same on all ranks and different for every start: 1 to 64 of `a-z A-Z 0-9 -`. Made up where
  /// it is empty and world is 1.
  std::string run;
  /// [collective] True on every rank when every rank passed true; also a barrier. What it throws
  /// goes to the caller. A writer in the background calls it from its own thread, so it must not
  /// share a process group with anything else. Not needed where world is 1.
  std::function<bool(bool ok)> agree;
};

struct CheckpointOptions {
  int keep = 2;  ///< complete checkpoints that stay; at least 2
  /// CheckpointReader::folder() of what this run continues, empty for one from the beginning.
  std::filesystem::path resumed_from;
  /// Told what went wrong without harm: an old checkpoint that could not be removed.
  std::function<void(const std::string&)> warn;
};

/// Saves checkpoints into one folder. Holds the lock of that folder (rank 0), so that two runs
/// never write to one. Every member but rank-local ones is [collective: every rank, same order].
class CheckpointWriter {
 public:
  /// Makes `folder` where it does not exist, locks it, and removes what interrupted saves left.
  /// @throws Error(kUsage) for options out of range; Error(kExists) where another run writes there,
  ///         or where it holds checkpoints of a run that is not continued; Error(kIo);
  ///         Error(kFailure) where another rank failed or sees another folder
  CheckpointWriter(std::filesystem::path folder, CheckpointRanks ranks,
                   CheckpointOptions options = {});
  ~CheckpointWriter();
  CheckpointWriter(CheckpointWriter&&) noexcept;
  CheckpointWriter& operator=(CheckpointWriter&&) noexcept;

  /// Writes this rank's sections; when it returns, the checkpoint of all ranks is on the disk, and
  /// those too many are gone. When it throws, those saved before are as they were.
  /// @param step   0 to 999,999,999,999; not below the last one or the one resumed from. The same
  ///               step again replaces the whole checkpoint, at one instant
  /// @param facts  those of rank 0 are stored
  /// @throws Error(kIo) for a full disk and the like, with what to do; Error(kUsage, kLimit) for
  ///         names, numbers and sizes that are not allowed; Error(kFailure) where another rank
  ///         failed; what `agree` throws
  void save(std::int64_t step, std::span<const CheckpointSection> sections,
            const CheckpointFacts& facts);

  /// Complete checkpoints below the folder: DIR/step-000000001200. [local]
  static std::filesystem::path folder_of(const std::filesystem::path& folder, std::int64_t step);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The same in the background, one save at a time. Signals are left to the other threads. The
/// members are [collective] and not thread-safe.
class BackgroundCheckpointWriter {
 public:
  /// @throws as CheckpointWriter
  BackgroundCheckpointWriter(std::filesystem::path folder, CheckpointRanks ranks,
                             CheckpointOptions options = {});
  /// Waits for the save under way; a failure that was not reported yet goes to `warn`.
  ~BackgroundCheckpointWriter();
  BackgroundCheckpointWriter(const BackgroundCheckpointWriter&) = delete;
  BackgroundCheckpointWriter& operator=(const BackgroundCheckpointWriter&) = delete;

  /// Waits for the save before, then starts this one and returns.
  /// @throws what the save before failed with; this one is not started then
  void save(std::int64_t step, std::vector<CheckpointSection> sections, CheckpointFacts facts);
  /// Waits for the save under way. @throws what it failed with
  void finish();
  /// True while a save is under way. Ranks see its end at different times, so it must not decide
  /// what they do. [local]
  bool busy() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A complete checkpoint whose every byte was checked. Any rank of a world of any size may read any
/// section of any shard.
class CheckpointReader {
 public:
  struct Section {
    std::string name;
    std::int64_t bytes = 0;
  };

  /// Opens the newest checkpoint in `path` that is whole, or `path` itself where it is one. Each
  /// rank checks its part of the shards. [collective, where world is above 1]
  /// @param warn  told of each newer one that is damaged, and which is used instead
  /// @throws Error(kNotFound) where there is none; Error(kCorrupt) where none is whole;
  ///         Error(kUnsupported) for one of a later gbcompress; Error(kIo, kFailure)
  static CheckpointReader open(const std::filesystem::path& path, const CheckpointRanks& ranks = {},
                               const std::function<void(const std::string&)>& warn = {});

  const std::filesystem::path& folder() const noexcept { return folder_; }
  std::int64_t step() const noexcept { return step_; }
  int world() const noexcept { return static_cast<int>(shards_.size()); }  ///< when it was saved
  const CheckpointFacts& facts() const noexcept { return facts_; }
  /// SHA-256 over everything but the sections' content, in hexadecimal; ranks that resume together
  /// compare it.
  const std::string& identity() const noexcept { return identity_; }

  /// Every one of `now` must be among the facts stored, with the same value.
  /// @throws Error(kUsage) naming those that differ, with both values
  void require(const CheckpointFacts& now) const;

  /// In the order they were saved in. @param shard  0 .. world() - 1, else Error(kUsage)
  const std::vector<Section>& sections(int shard) const;
  bool has(int shard, const std::string& name) const;
  /// Checked once more. The files must still be there: read before `keep` newer ones are saved.
  /// @throws Error(kNotFound) for a name that the shard does not have; Error(kIo, kTruncated,
  ///         kCorrupt)
  std::vector<std::byte> read(int shard, const std::string& name) const;
  /// The same into memory of exactly its size, else Error(kShapeMismatch).
  void read_into(int shard, const std::string& name, std::span<std::byte> out) const;

 private:
  struct Shard {
    std::vector<Section> sections;
    std::vector<std::int64_t> offsets;
    std::vector<std::uint64_t> digests;
    std::unordered_map<std::string, std::size_t> index;
  };
  CheckpointReader() = default;
  static CheckpointReader open_folder(const std::filesystem::path& folder);
  void verify(int shard) const;
  const Shard& shard_at(int shard) const;
  std::size_t find(int shard, const std::string& name) const;

  std::filesystem::path folder_;
  std::int64_t step_ = 0;
  CheckpointFacts facts_;
  std::string identity_;
  std::vector<Shard> shards_;
};

/// Steps of the complete checkpoints in a folder, ascending; whether they are whole is not looked
/// at. Empty where the folder does not exist. @throws Error(kIo)
std::vector<std::int64_t> list_checkpoints(const std::filesystem::path& folder);

}  // namespace gbcompress
