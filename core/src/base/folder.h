#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace gbcompress {

/// Names of what a folder holds, sorted. Unlike std::filesystem's iterators, whose noexcept members
/// allocate, it throws where there is no memory.
/// @throws Error(kIo), std::bad_alloc
std::vector<std::string> names_in(const std::filesystem::path& folder);

}  // namespace gbcompress
