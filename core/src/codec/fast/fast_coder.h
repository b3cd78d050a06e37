#pragma once
/// Profile `fast`: streams.

#include <memory>
#include <span>

#include "codec/backend.h"

namespace gbcompress::codec {

std::unique_ptr<EncoderBackend> make_fast_encoder();
std::unique_ptr<DecoderBackend> make_fast_decoder(std::span<const std::byte> stream);

}  // namespace gbcompress::codec
