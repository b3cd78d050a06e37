#pragma once
/// Profile `lanes` for one list of grids in memory.

#include <memory>

#include "codec/backend.h"

namespace gbcompress::codec {

std::unique_ptr<EncoderBackend> make_lanes_encoder();
std::unique_ptr<DecoderBackend> make_lanes_decoder(std::span<const std::byte> stream);

}  // namespace gbcompress::codec
