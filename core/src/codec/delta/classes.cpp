#include "codec/delta/classes.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace gbcompress::codec::delta {
namespace {

/// What a class costs beside its changes: its probabilities are learned from the first ones. Bits.
constexpr double kClassBits = 48;

/// Bits of the places of `changed` among `all`.
double place_bits(double all, double changed) {
  const double same = all - changed;
  double bits = 0;
  if (changed > 0) bits += changed * std::log2(all / changed);
  if (same > 0) bits += same * std::log2(all / same);
  return bits;
}

struct Level {
  std::size_t level;
  double all, changed;
};

}  // namespace

Thresholds choose_classes(std::span<const std::uint64_t> all,
                          std::span<const std::uint64_t> changed) {
  std::vector<Level> levels;
  for (std::size_t level = 0; level < all.size(); ++level)
    if (all[level] > 0)
      levels.push_back(
          {level, static_cast<double>(all[level]), static_cast<double>(changed[level])});
  const std::size_t n = levels.size();
  if (n < 2) return {};
  // best[k][end]: bits of the first `end` levels in k + 1 classes.
  std::vector<std::vector<double>> best(
      kMostClasses, std::vector<double>(n + 1, std::numeric_limits<double>::infinity()));
  std::vector<std::vector<std::size_t>> cut(kMostClasses, std::vector<std::size_t>(n + 1));
  for (std::size_t end = 1; end <= n; ++end) {
    double sum = 0, moved = 0;
    for (std::size_t first = end; first-- > 0;) {
      sum += levels[first].all;
      moved += levels[first].changed;
      const double bits = place_bits(sum, moved) + kClassBits;
      if (first == 0) best[0][end] = bits;
      for (std::size_t k = 1; first > 0 && k < kMostClasses; ++k) {
        if (best[k - 1][first] + bits >= best[k][end]) continue;
        best[k][end] = best[k - 1][first] + bits;
        cut[k][end] = first;
      }
    }
  }
  std::size_t k = 0;
  for (std::size_t other = 1; other < kMostClasses; ++other)
    if (best[other][n] < best[k][n]) k = other;
  Thresholds thresholds;
  for (std::size_t end = n; k > 0; --k) {
    end = cut[k][end];
    thresholds.insert(thresholds.begin(), static_cast<std::uint16_t>(levels[end].level));
  }
  return thresholds;
}

std::vector<std::uint64_t> limits_of(const Thresholds& thresholds, int mantissa_bits) {
  std::vector<std::uint64_t> limits;
  for (const std::uint16_t threshold : thresholds)
    limits.push_back(std::uint64_t{threshold} << mantissa_bits);
  return limits;
}

std::size_t classify_some(std::span<const std::byte> elements, int element_bytes,
                          std::span<const std::uint64_t> limits,
                          std::span<BlockClasses, kBlocksAtOnce> blocks) {
  const std::size_t block_bytes = kBlock * static_cast<std::size_t>(element_bytes);
  const std::size_t whole = std::min(elements.size() / block_bytes, kBlocksAtOnce);
  classify(elements.data(), element_bytes, limits, blocks.first(whole));
  if (whole == kBlocksAtOnce || whole * block_bytes == elements.size()) return whole;
  const auto rest = elements.subspan(whole * block_bytes);
  std::array<std::byte, kBlock * 8> padded{};
  std::copy(rest.begin(), rest.end(), padded.begin());
  BlockClasses& last = blocks[whole];
  classify(padded.data(), element_bytes, limits, {&last, 1});
  const std::size_t count = rest.size() / static_cast<std::size_t>(element_bytes);
  for (std::size_t k = 0; k <= limits.size(); ++k) {
    last.masks[k] &= (std::uint64_t{1} << count) - 1;
    last.counts[k] = static_cast<std::uint8_t>(std::popcount(last.masks[k]));
  }
  return whole + 1;
}

std::vector<std::uint64_t> differing_elements(std::span<const std::byte> base,
                                              std::span<const std::byte> now, int element_bytes) {
  const std::size_t block_bytes = kBlock * static_cast<std::size_t>(element_bytes);
  const std::size_t whole = base.size() / block_bytes, rest = base.size() % block_bytes;
  std::vector<std::uint64_t> masks(whole + (rest > 0 ? 1 : 0));
  compare(base.data(), now.data(), element_bytes, std::span(masks).first(whole));
  if (rest == 0) return masks;
  std::array<std::byte, kBlock * 8> before{}, after{};
  std::copy_n(base.data() + whole * block_bytes, rest, before.begin());
  std::copy_n(now.data() + whole * block_bytes, rest, after.begin());
  compare(before.data(), after.data(), element_bytes, std::span(masks).subspan(whole));
  return masks;
}

}  // namespace gbcompress::codec::delta
