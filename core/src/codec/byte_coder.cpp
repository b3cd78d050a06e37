#include "codec/byte_coder.h"

#include <algorithm>
#include <cstring>

#include "codec/byte_steps.h"
#include "codec/rans.h"
#include "gbcompress/error.h"

namespace gbcompress::codec {
namespace {

[[noreturn]] void corrupt(const char* why) {
  throw Error(Errc::kCorrupt, std::string("coded bytes ") + why + "; get the file again");
}

/// The states of a stream and its words, which are read one by one.
class Lanes {
 public:
  explicit Lanes(std::size_t count) : count_(count) {}

  const std::byte* read(std::span<const std::byte> stream) {
    if (stream.size() < 4 * count_ || stream.size() % 2 != 0) corrupt("end early");
    std::memcpy(states_.data(), stream.data(), 4 * count_);
    for (std::size_t lane = 0; lane < count_; ++lane)
      if (states_[lane] < kLeastState) corrupt("begin as none do");
    return stream.data() + 4 * count_;
  }
  std::byte take(std::size_t lane, const std::uint32_t* entries, const std::byte*& next,
                 const std::byte* end) {
    std::uint32_t& x = states_[lane];
    const std::uint32_t entry = entries[x & (kWhole - 1)];
    x = (entry >> kProbabilityBits & (kWhole - 1)) * (x >> kProbabilityBits) +
        (entry & (kWhole - 1));
    if (x < kLeastState) {
      if (next == end) corrupt("end early");
      std::uint16_t word;
      std::memcpy(&word, next, sizeof word);
      next += sizeof word;
      x = x << 16 | word;
    }
    return static_cast<std::byte>(entry >> 24);
  }
  std::uint32_t* states() { return states_.data(); }
  void check_end() const {
    for (std::size_t lane = 0; lane < count_; ++lane)
      if (states_[lane] != kLeastState) corrupt("do not end as they began");
  }

 private:
  std::array<std::uint32_t, kManyLanes> states_{};
  std::size_t count_;
};

}  // namespace

ByteWidths read_widths(ByteReader& in, const std::string& label) {
  ByteWidths widths{};
  const std::size_t first = in.read<std::uint8_t>();
  const std::size_t last = first + in.read<std::uint8_t>();
  const auto refuse = [&] {
    throw Error(Errc::kCorrupt, label + " has a malformed table of bytes");
  };
  if (last >= kByteValues) refuse();
  std::uint32_t all = 0;
  for (std::size_t value = first; value <= last; ++value) {
    std::uint32_t width = in.read<std::uint8_t>();
    if (width >= 128) width = (width - 128) << 8 | in.read<std::uint8_t>();
    if (width >= kWhole) refuse();
    widths[value] = static_cast<std::uint16_t>(width);
    all += width;
  }
  if (all != kWhole) refuse();
  return widths;
}

ByteDecoder::ByteDecoder(std::span<const ByteWidths> tables) {
  for (const ByteWidths& widths : tables) add(widths);
}

void ByteDecoder::add(const ByteWidths& widths) {
  for (std::uint32_t value = 0; value < kByteValues; ++value)
    for (std::uint32_t i = 0; i < widths[value]; ++i)
      entries_.push_back(value << 24 | std::uint32_t{widths[value]} << kProbabilityBits | i);
}

void ByteDecoder::decode(std::span<const std::byte> stream, const ByteClasses& classes,
                         std::span<std::byte> bytes) const {
  const std::size_t count = lanes_of(bytes.size());
  Lanes lanes(count);
  const std::byte* next = lanes.read(stream);
  const std::byte* const end = stream.data() + stream.size();
  std::size_t i = 0;
#ifndef GBC_FREESTANDING  // libgbz decodes one by one, which takes less code
  if (count == kManyLanes) {
    const bool one = classes.of_run.empty();
    i = kManyLanes * decode_byte_steps({entries_.data() + (classes.first << kProbabilityBits),
                                        one ? nullptr : classes.of_run.data(),
                                        one ? 1 : classes.run / kManyLanes},
                                       bytes.size() / kManyLanes, lanes.states(), next, end,
                                       bytes.data());
  }
#endif
  while (i < bytes.size()) {
    const std::uint32_t* entries = entries_.data() + (classes.at(i) << kProbabilityBits);
    const std::size_t stop = classes.of_run.empty()
                                 ? bytes.size()
                                 : std::min(bytes.size(), (i / classes.run + 1) * classes.run);
    for (; i < stop; ++i) bytes[i] = lanes.take(i % count, entries, next, end);
  }
  if (next != end) corrupt("have words left over");
  lanes.check_end();
}

#ifndef GBC_FREESTANDING
ByteEncoder::ByteEncoder(std::span<const ByteWidths> tables) : parts_(tables.size() * kByteValues) {
  for (std::size_t t = 0; t < tables.size(); ++t)
    for (std::uint32_t value = 0, start = 0; value < kByteValues; ++value) {
      parts_[t * kByteValues + value] = std::uint32_t{tables[t][value]} << 16 | start;
      start += tables[t][value];
    }
}

void ByteEncoder::encode(std::span<const std::byte> bytes, const ByteClasses& classes,
                         std::vector<std::uint16_t>& words, std::vector<std::byte>& to) const {
  const std::size_t count = lanes_of(bytes.size());
  std::array<std::uint32_t, kManyLanes> states;
  states.fill(kLeastState);
  const std::size_t most = bytes.size() + kByteWordsInVain;
  if (words.size() < most) words.resize(most);
  std::uint16_t* next = words.data() + words.size();  // backward: the last one is read last
  const std::size_t stop = count == kManyLanes ? bytes.size() / kManyLanes * kManyLanes : 0;
  for (std::size_t i = bytes.size(); i-- > stop;) {
    const std::uint32_t part =
        parts_[classes.at(i) * kByteValues + std::to_integer<std::size_t>(bytes[i])];
    const std::uint32_t width = part >> 16;
    std::uint32_t& x = states[i % count];
    if (x >> 20 >= width) {
      *--next = static_cast<std::uint16_t>(x);
      x >>= 16;
    }
    x = ((x / width) << kProbabilityBits) + x % width + (part & 0xffff);
  }
  const bool one = classes.of_run.empty();
  if (stop > 0)
    next = encode_byte_steps(
        {parts_.data() + classes.first * kByteValues, one ? nullptr : classes.of_run.data(),
         one ? 1 : classes.run / kManyLanes},
        bytes.data(), stop / kManyLanes, states.data(), next);
  const auto all = std::as_bytes(std::span(states).first(count));
  to.insert(to.end(), all.begin(), all.end());
  const auto content = std::as_bytes(std::span(next, words.data() + words.size()));
  to.insert(to.end(), content.begin(), content.end());
}
#endif

}  // namespace gbcompress::codec
