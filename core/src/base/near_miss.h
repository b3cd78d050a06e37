#pragma once
/// How far a word is from another.

#include <cstddef>
#include <string_view>

namespace gbcompress {

/// The smallest number of characters to insert, delete or replace.
/// @param a  its first 256 characters count
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace gbcompress
