#pragma once
/// Sizes and choices in headers.

#include <cstdint>
#include <vector>

#include "artifact/header/cbor_reader.h"

namespace gbcompress {

/// At least 0. @throws Error(kCorrupt)
std::int64_t read_size(CborReader& in);
/// @throws Error(kCorrupt) for more than `most` numbers, before anything is allocated
std::vector<std::int64_t> read_sizes(CborReader& in, std::int64_t most);
/// @throws Error(kUnsupported) from `count` on
int read_choice(CborReader& in, std::uint64_t count);

}  // namespace gbcompress
