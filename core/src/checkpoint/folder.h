#pragma once
/// Names in a checkpoint folder (docs/reference/checkpoints.md, "Layout").

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/posix.h"

namespace gbcompress {

inline constexpr std::int64_t kMaxStep = 999'999'999'999;
inline constexpr int kMaxWorld = 65'536;
inline constexpr const char* kManifestName = "manifest";
inline constexpr const char* kLockName = "lock";

std::string step_name(std::int64_t step);  ///< "step-000000001200"
std::string shard_name(int rank);          ///< "rank-00003.shard"
/// The step of a complete checkpoint's name.
std::optional<std::int64_t> parse_step_name(std::string_view name) noexcept;
/// "step-000000001200.tmp-...": being written, being removed, or left by a run that ended.
bool is_temporary_name(std::string_view name) noexcept;

/// Takes FOLDER/lock for this process and writes `run` into it. @throws Error(kExists, kIo)
FileHandle lock_folder(const std::filesystem::path& folder, const std::string& run);
/// @throws Error(kFailure) where FOLDER/lock does not hold `run`: ranks see different folders
void check_same_folder(const std::filesystem::path& folder, const std::string& run, int rank);

/// True where a living process holds the lock of a shard in `temporary`. The caller has the lock of
/// the folder, so no rank 0 lives that could complete it; a rank that outlived its rank 0 may still
/// write.
bool is_being_written(const std::filesystem::path& temporary);

}  // namespace gbcompress
