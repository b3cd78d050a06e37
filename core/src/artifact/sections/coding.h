#pragma once
/// G-net parameters as bytes and back (docs/reference/artifact-gnets.md, "Codings").

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// Bytes of one element, as byte planes see it: 4, 2 or 1.
std::int64_t element_bytes(Coding coding) noexcept;

/// @param theta  [tiles, parameters], Error(kShapeMismatch) otherwise
/// @param label  for messages
/// @throws Error(kNonFinite)
std::vector<std::byte> encode_theta(const GNetSpec& spec, Coding coding,
                                    std::span<const float> theta, const std::string& label);
/// @param bytes  coded_bytes(spec, coding) of them
/// @throws Error(kCorrupt) for what no writer makes: numbers that are not finite, -128, a bad scale
std::vector<float> decode_theta(const GNetSpec& spec, Coding coding,
                                std::span<const std::byte> bytes, const std::string& label);

}  // namespace gbcompress
