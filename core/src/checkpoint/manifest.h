#pragma once
/// The file that makes a folder of shards a checkpoint (docs/reference/checkpoints.md, "Manifest").

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/shard.h"

namespace gbcompress {

inline constexpr std::int64_t kMaxManifestBytes = 16 << 20;

struct Manifest {
  std::int64_t step = 0;
  CheckpointFacts facts;
  std::vector<ShardSeal> shards;  ///< one a rank, in order
  std::string identity;           ///< SHA-256 of the file's content, in hexadecimal
};

/// @throws Error(kUsage, kLimit) for facts that are not allowed or too many
std::vector<std::byte> encode_manifest(const Manifest& manifest);
/// @throws Error(kNotFound, kIo, kTruncated, kCorrupt, kUnsupported, kLimit)
Manifest read_manifest(const std::filesystem::path& path);

}  // namespace gbcompress
