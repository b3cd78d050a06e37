#pragma once
/// Numbers from 0 on whose sizes are alike (docs/reference/exact-deltas.md, "Numbers").

#include <array>
#include <bit>
#include <cstdint>

#include "codec/delta/adaptive.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {

/// @tparam Contexts  of the length
template <std::size_t Contexts>
class NumberModel {
 public:
  void put(RansWriter& out, std::size_t context, std::uint64_t number) {
    const auto length = static_cast<int>(std::bit_width(number));
    lengths_[context].put(out, static_cast<unsigned>(std::min(length, kEscape)));
    if (length >= kEscape) out.put_even(static_cast<std::uint32_t>(length), 7);
    if (length < 2) return;
    const std::uint64_t rest = number - (std::uint64_t{1} << (length - 1));
    const int below = std::max(length - 1 - kTopBits, 0);
    top(length).put(out, static_cast<unsigned>(rest >> below));
    put_bits(out, rest & ((std::uint64_t{1} << below) - 1), below);
  }

  std::uint64_t get(RansReader& in, std::size_t context) {
    auto length = static_cast<int>(lengths_[context].get(in));
    if (length == kEscape) length = static_cast<int>(in.take_even(7));
    if (length > 64) corrupt();
    if (length < 2) return static_cast<std::uint64_t>(length);
    const int below = std::max(length - 1 - kTopBits, 0), top_bits = length - 1 - below;
    const unsigned symbol = top(length).get(in);
    if (symbol >> top_bits != 0) corrupt();
    return (std::uint64_t{1} << top_bits | symbol) << below | get_bits(in, below);
  }

 private:
  static constexpr int kEscape = 15, kTopBits = 4;
  Adaptive& top(int length) { return tops_[static_cast<std::size_t>(std::min(length, kEscape))]; }
  [[noreturn]] static void corrupt() {
    throw Error(Errc::kCorrupt, "a number of a change is malformed; get the file again");
  }

  std::array<Adaptive, Contexts> lengths_;
  std::array<Adaptive, kEscape + 1> tops_;
};

}  // namespace gbcompress::codec::delta
