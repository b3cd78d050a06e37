#pragma once
/// Profile `small`: streams.

#include <memory>
#include <span>
#include <vector>

#include "codec/backend.h"

namespace gbcompress::codec {

std::unique_ptr<EncoderBackend> make_small_encoder();
std::unique_ptr<DecoderBackend> make_small_decoder(std::span<const std::byte> stream);
std::vector<float> expected_scales_of(const IntegerGrid& grid,
                                      std::span<const std::int32_t> values,
                                      std::span<const std::uint8_t> prior);

}  // namespace gbcompress::codec
