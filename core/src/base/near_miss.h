#pragma once
/// How far a word is from another.

#include <cstddef>
#include <string_view>

namespace gbcompress {

/// The smallest number of characters to insert, delete or replace, and of neighbors to exchange.
/// @param a  its first 256 characters count
std::size_t edit_distance(std::string_view a, std::string_view b);
/// Whether a name at that distance may be what `word` means: one character differs, or at most a
/// third of them.
bool is_near(std::string_view word, std::size_t distance);

}  // namespace gbcompress
