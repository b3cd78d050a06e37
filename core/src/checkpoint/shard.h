#pragma once
/// One rank's file of a checkpoint (checkpoints.md, "Shard"): a head that names the sections,
/// then their bytes.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/checkpoint.h"

namespace gbcompress {

inline constexpr std::size_t kMaxNameBytes = 512;
inline constexpr std::size_t kMaxSections = 1'000'000;  ///< of a shard
inline constexpr std::int64_t kMaxHeadBytes = 64 << 20;

struct ShardEntry {
  std::string name;
  std::int64_t bytes = 0;
  std::uint64_t xxh3 = 0;
  std::int64_t offset = 0;  ///< in the file; follows from the sizes before
};

/// What the manifest says of a shard. The digest holds the table, which holds the digests of the
/// sections, so the manifest stands for every byte.
struct ShardSeal {
  std::int64_t bytes = 0;   ///< of the file
  std::string head_digest;  ///< SHA-256 of the head, in hexadecimal
};

/// @throws Error(kUsage, kLimit) for names and numbers of sections that are not allowed
std::vector<std::byte> encode_shard_head(int rank, std::int64_t step,
                                         std::span<const CheckpointSection> sections);
/// Writes a whole shard, flushed to the disk. It is locked meanwhile. @throws Error(kIo)
void write_shard(const std::filesystem::path& path, std::span<const std::byte> head,
                 std::span<const CheckpointSection> sections);

/// Of a shard as it lies on the disk. @throws Error(kNotFound, kIo, kTruncated, kCorrupt, kLimit)
ShardSeal read_shard_seal(const std::filesystem::path& path);
/// The table of a shard that must be the one the manifest speaks of.
/// @throws as read_shard_seal(); Error(kUnsupported)
std::vector<ShardEntry> read_shard_table(const std::filesystem::path& path, int rank,
                                         std::int64_t step, const ShardSeal& seal);

}  // namespace gbcompress
