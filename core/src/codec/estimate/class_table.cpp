#include "codec/estimate/class_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gbcompress::codec {
namespace {

constexpr std::uint32_t kFirstOpinion = 2048;   // sum of the counts that a table starts with
constexpr std::uint32_t kSeen = 16;             // what a symbol that passed adds to its count
constexpr int kBits = 12;                       // of a probability
constexpr std::uint32_t kInterval = 1u << kBits;
constexpr std::uint32_t kMostTotal = 1u << 20;  // counts are halved beyond it

}  // namespace

ClassTable::ClassTable(const std::vector<std::uint32_t>& weights)
    : counts_(weights.size()), seen_(weights.size(), 0), bits_(weights.size()) {
  const std::uint64_t sum =
      std::max<std::uint64_t>(1, std::accumulate(weights.begin(), weights.end(), std::uint64_t{0}));
  for (std::size_t i = 0; i < weights.size(); ++i)
    counts_[i] = static_cast<std::uint32_t>(weights[i] * std::uint64_t{kFirstOpinion} / sum);
  rebuild();
}

void ClassTable::end_segment(std::uint32_t fresh) {
  fresh_ += fresh;
  if (std::uint64_t{fresh_} * kSeen * 4 < total_) return;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    counts_[i] += seen_[i] * kSeen;
    seen_[i] = 0;
  }
  fresh_ = 0;
  rebuild();
}

void ClassTable::rebuild() {
  total_ = std::accumulate(counts_.begin(), counts_.end(), 0u);
  while (total_ > kMostTotal) {
    for (std::uint32_t& count : counts_) count /= 2;
    total_ = std::accumulate(counts_.begin(), counts_.end(), 0u);
  }
  // Every symbol keeps a part of the unit interval, as in a coder.
  const auto symbols = static_cast<std::uint32_t>(counts_.size());
  std::vector<std::uint32_t> widths(counts_.size());
  std::uint32_t left = kInterval;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    widths[i] =
        1 + static_cast<std::uint32_t>(std::uint64_t{counts_[i]} * (kInterval - symbols) / total_);
    left -= widths[i];
  }
  // What rounding left over goes to the most frequent symbol (the first of equals).
  widths[static_cast<std::size_t>(std::max_element(counts_.begin(), counts_.end()) -
                                  counts_.begin())] += left;
  for (std::size_t i = 0; i < widths.size(); ++i)
    bits_[i] = static_cast<float>(kBits - std::log2(widths[i]));
}

}  // namespace gbcompress::codec
