#pragma once
/// How values of one scale class are distributed, learned as they pass.

#include <cstdint>
#include <vector>

namespace gbcompress::codec {

/// Symbols 0 ... count - 1 and their probabilities.
class ClassTable {
 public:
  /// @param weights  initial distribution; any positive sum
  explicit ClassTable(const std::vector<std::uint32_t>& weights);

  /// What a symbol takes, bits.
  double bits(int symbol) const { return bits_[static_cast<std::size_t>(symbol)]; }
  void saw(int symbol) { ++seen_[static_cast<std::size_t>(symbol)]; }
  /// Once a segment, for each table that was used: `fresh` symbols have passed since the last time.
  void end_segment(std::uint32_t fresh);

 private:
  void rebuild();

  std::vector<std::uint32_t> counts_;  ///< what the probabilities are made from
  std::vector<std::uint32_t> seen_;    ///< since then
  std::uint32_t total_ = 0;            ///< of counts_
  std::uint32_t fresh_ = 0;            ///< of seen_
  std::vector<float> bits_;
};

}  // namespace gbcompress::codec
