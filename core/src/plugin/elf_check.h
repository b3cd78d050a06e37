#pragma once
/// Is a file a whole ELF library that the dynamic loader of this machine can map? The loader itself
/// does not ask: it maps what the headers say and dies by SIGBUS where the file is shorter.

#include <cstddef>
#include <span>
#include <string>

namespace gbcompress {

/// Checks the file header, and that all program headers, sections and segments lie inside the file
/// and do not contradict each other.
/// @return what is wrong, as the rest of a sentence that begins with the file's name; "" where
///         nothing is
std::string elf_damage(std::span<const std::byte> bytes);

}  // namespace gbcompress
