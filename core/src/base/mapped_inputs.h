#pragma once
/// Mapped files whose pages go away while they are read: the file was cut short, or its disk fails.
/// The kernel says so with SIGBUS, in the thread that reads. Pages of zeros take their place, so
/// that every thread goes on, and the loss is remembered until somebody who can throw asks.

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/internal.h"
#include "gbcompress/tensors.h"  // check_mapped_inputs()

struct stat;

namespace GBC_INTERNAL gbcompress {

struct MappedInput;

/// Handles SIGBUS for these bytes from now on; any other goes to the handler that was there before.
/// @param status  of the file when it was mapped
/// @throws std::bad_alloc
MappedInput* watch_mapping(std::byte* data, std::size_t size, const std::filesystem::path& path,
                           const struct stat& status);
/// Before the bytes are unmapped. nullptr is left alone.
void forget_mapping(MappedInput* input) noexcept;
/// Once numbers were copied from there, and before decisions are made from the copy: what is read a
/// second time may be zeros by then, and other decisions would follow. Bytes of no watched file are
/// left alone.
/// @throws Error(kFailure) where the file that the first byte lies in became shorter [thread-safe]
void check_mapped(std::span<const std::byte> bytes);
/// Bytes that are not needed for a while: their pages no longer count as the process's memory, and
/// are read again where they are needed after all. Bytes of no watched file are left alone.
void release_pages(std::span<const std::byte> bytes) noexcept;

}  // namespace gbcompress
