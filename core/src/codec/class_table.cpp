#include "codec/class_table.h"

#include <algorithm>
#include <numeric>

namespace gbcompress::codec {
namespace {

constexpr std::uint32_t kFirstOpinion = 2048;   // sum of the counts that a table starts with
constexpr std::uint32_t kSeen = 16;             // what a symbol that passed adds to its count
constexpr std::uint32_t kMostTotal = 1u << 20;  // counts are halved beyond it

}  // namespace

ClassTable::ClassTable(const std::vector<std::uint32_t>& weights, bool decodes)
    : counts_(weights.size()), seen_(weights.size(), 0), parts_(weights.size()) {
  const auto sum = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  for (std::size_t i = 0; i < weights.size(); ++i)
    counts_[i] = static_cast<std::uint32_t>(weights[i] * std::uint64_t{kFirstOpinion} / sum);
  if (decodes) lookup_.resize(kWhole);
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
  const auto symbols = static_cast<std::uint32_t>(counts_.size());
  std::uint32_t left = kWhole;
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    const std::uint64_t share = std::uint64_t{counts_[i]} * (kWhole - symbols) / total_;
    parts_[i].width = static_cast<std::uint16_t>(1 + share);
    left -= parts_[i].width;
  }
  // What rounding left over goes to the most frequent symbol (the first of equals).
  const auto top = std::max_element(counts_.begin(), counts_.end()) - counts_.begin();
  parts_[top].width = static_cast<std::uint16_t>(parts_[top].width + left);
  std::uint16_t start = 0;
  for (Part& part : parts_) {
    part.start = start;
    start = static_cast<std::uint16_t>(start + part.width);
  }
  for (std::size_t symbol = 0; symbol < parts_.size() && !lookup_.empty(); ++symbol)
    for (std::uint32_t offset = 0; offset < parts_[symbol].width; ++offset)
      lookup_[parts_[symbol].start + offset] = offset << 20 |
                                               std::uint32_t{parts_[symbol].width} << 8 |
                                               static_cast<std::uint32_t>(symbol);
}

}  // namespace gbcompress::codec
