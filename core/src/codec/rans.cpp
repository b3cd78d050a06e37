#include "codec/rans.h"

#include <cmath>
#include <string>

#include "base/byte_reader.h"

namespace gbcompress::codec {
namespace {

const std::array<float, kWhole + 1>& width_table() {
  static const auto table = [] {
    std::array<float, kWhole + 1> bits{};
    for (std::uint32_t width = 1; width <= kWhole; ++width)
      bits[width] = static_cast<float>(kProbabilityBits - std::log2(width));
    return bits;
  }();
  return table;
}

double bits_of(std::span<const std::uint32_t> parts) {
  const auto& table = width_table();
  double bits = 0;
  for (std::uint32_t part : parts) bits += table[part & 0xFFFF];
  return bits;
}

}  // namespace

double width_bits(std::uint32_t width) { return width_table()[width]; }

double RansWriter::bits() const { return flushed_bits_ + bits_of(parts_); }

void RansWriter::flush() {
  if (parts_.empty()) return;
  flushed_bits_ += bits_of(parts_);
  std::array<std::uint32_t, kLanes> states;
  states.fill(kLeastState);
  std::vector<std::uint16_t> words;  // last one first
  words.reserve(parts_.size() / 2);
  for (std::size_t i = parts_.size(); i-- > 0;) {
    std::uint32_t& state = states[i % kLanes];
    const std::uint32_t start = parts_[i] >> 16;
    const std::uint32_t width = parts_[i] & 0xFFFF;
    if (state >= std::uint64_t{width} << 20) {
      words.push_back(static_cast<std::uint16_t>(state));
      state >>= 16;
    }
    state = (state / width << kProbabilityBits) + state % width + start;
  }
  bytes_.reserve(bytes_.size() + 4 * kLanes + 2 * words.size());
  for (std::uint32_t state : states) append_number(bytes_, state);
  for (std::size_t i = words.size(); i-- > 0;) append_number(bytes_, words[i]);
  parts_.clear();
}

void RansReader::load() {
  if (stream_.size() - position_ < sizeof states_) truncated(stream_.size());
  std::memcpy(states_.data(), stream_.data() + position_, sizeof states_);
  position_ += sizeof states_;
  for (std::uint32_t state : states_)
    if (state < kLeastState)
      throw Error(Errc::kCorrupt, "a coded stream begins as none does; get the file again");
  lane_ = 0;
}

void RansReader::unload() {
  if (!states_at_rest())
    throw Error(Errc::kCorrupt, "a coded stream does not end as it began; get the file again");
  parts_ = 0;
}

bool RansReader::states_at_rest() const {
  for (std::uint32_t state : states_)
    if (state != kLeastState) return false;
  return true;
}

bool RansReader::at_end() const {
  return position_ == stream_.size() && (parts_ == 0 || states_at_rest());
}

void RansReader::truncated(std::size_t stream_bytes) {
  throw Error(Errc::kTruncated, "a coded stream ends after " + std::to_string(stream_bytes) +
                                    " bytes, before the last value; get the file again");
}

}  // namespace gbcompress::codec
