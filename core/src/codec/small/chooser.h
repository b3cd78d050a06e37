#pragma once
/// Integers chosen one at a time, where the next number depends on what was chosen before.

#include <cstdint>
#include <memory>

#include "base/internal.h"
#include "gbcompress/codec.h"

namespace gbcompress {
namespace GBC_INTERNAL codec {

/// What profile `small` takes for integers, tensor after tensor as IntegerEncoder::add() takes
/// them; nothing is written.
class IntegerChooser {
 public:
  IntegerChooser();
  ~IntegerChooser();

  /// A tensor begins, which is not dependent; rows * cols calls of choose() follow, then end().
  void begin(const IntegerGrid& grid);
  /// Of the nearest integer, the next one toward zero, and zero: the one with the least
  /// (scaled - integer)^2 + lambda * bits.
  /// @param scaled  in units of the step, magnitude up to kMaxMagnitude
  /// @param price   the rate weight lambda; 0: the nearest integer
  std::int32_t choose(double scaled, double price);
  void end();
  /// Of everything so far.
  double bits() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace codec
}  // namespace gbcompress
