#pragma once
/// Sizes that --max-drop tries, one after another.

#include <cmath>

namespace gbcompress {

/// Begins with the largest ratio and halves it until quality is kept. Where a try is cheap, what
/// lies between the last two is then cut in halves.
class DropSearch {
 public:
  explicit DropSearch(bool cheap) : cheap_(cheap) {}
  static constexpr double kFirstRatio = 40;
  static constexpr int kHalvings = 4, kRefinements = 4;

  /// Input bytes over output bytes of the next try.
  double ratio() const { return ratio_; }
  /// What came of it. @return whether there is another try
  bool tried(bool kept) {
    if (kept) best_ = ratio_;
    if (best_ > 0) {
      if (!kept) missed_ = ratio_;
      if (!cheap_ || missed_ == 0 || refined_++ == kRefinements) return false;
      ratio_ = std::sqrt(best_ * missed_);
      return true;
    }
    missed_ = ratio_;
    if (halved_++ == kHalvings) return false;
    ratio_ /= 2;
    return true;
  }
  /// The largest ratio that kept quality; 0: none did.
  double best() const { return best_; }

 private:
  bool cheap_;
  double ratio_ = kFirstRatio;
  int halved_ = 0, refined_ = 0;
  double best_ = 0, missed_ = 0;
};

}  // namespace gbcompress
