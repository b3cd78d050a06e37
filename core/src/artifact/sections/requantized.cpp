#include "artifact/sections/requantized.h"

#include "artifact/sections/blocks.h"
#include "artifact/sections/requantized_parts.h"
#include "artifact/sections/varint.h"
#include "gbcompress/codec.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

gguf::Rounding read_rounding(ByteReader& in, const std::string& label) {
  const auto number = in.read<std::uint8_t>();
  if (number > 1)
    throw Error(Errc::kUnsupported,
                label + " is quantized by an unknown rule; upgrade gbcompress to read this file");
  return static_cast<gguf::Rounding>(number);
}

std::span<const std::byte> read_sized(ByteReader& in, const std::string& label) {
  return in.take(static_cast<std::uint64_t>(read_varint(in, label)));
}

void apply_to(std::span<const std::byte> change, std::vector<std::byte>& blocks) {
  const auto size = static_cast<std::int64_t>(blocks.size());
  apply_change(DType::kU8, std::span(&size, 1), change, blocks);
}

}  // namespace

std::vector<std::byte> unpack_requantized(std::span<const std::byte> section, std::uint32_t type,
                                          const BaseValues& base, std::size_t raw_bytes,
                                          const std::string& label, int threads) {
  const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
  if (!layout.even) throw Error(Errc::kCorrupt, label + " has blocks that are made of no base");
  ByteReader in(section, label);
  const auto form = in.read<std::uint8_t>();
  std::vector<std::byte> blocks;
  if (form == static_cast<std::uint8_t>(RequantizedForm::kScales)) {
    blocks = unpack_blocks(read_sized(in, label), raw_bytes, type, label, /*quants=*/false);
    make_quants(layout, base, blocks, threads);
  } else if (form <= static_cast<std::uint8_t>(RequantizedForm::kCorrected)) {
    const gguf::Rounding rounding = read_rounding(in, label);
    blocks.resize(raw_bytes);
    make_reference(layout, rounding, base, blocks, threads);
    if (form == static_cast<std::uint8_t>(RequantizedForm::kCorrected)) {
      gguf::clear_quants(layout, blocks);
      apply_to(read_sized(in, label), blocks);
      make_quants(layout, base, blocks, threads);
    }
  } else {
    throw Error(Errc::kUnsupported, label + " has blocks of the form " + std::to_string(form) +
                                        ", which is unknown; upgrade gbcompress to read this file");
  }
  if (in.remaining() > 0) apply_to(in.take(in.remaining()), blocks);
  return blocks;
}

}  // namespace gbcompress
