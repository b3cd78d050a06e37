#pragma once
/// What a profile does; sizes, magnitudes and priors have been checked by the caller.

#include "gbcompress/codec.h"

namespace gbcompress::codec {

/// Numbers to choose integers for, in units of the step.
struct Target {
  std::span<const float> scaled;
  std::span<const float> importance;  ///< empty, [cols] or [rows, cols]
  double lambda = 0;

  float weight(std::size_t index, std::int64_t cols) const {
    if (importance.empty()) return 1;
    return importance.size() == scaled.size() ? importance[index] : importance[index % cols];
  }
};

class EncoderBackend {
 public:
  virtual ~EncoderBackend() = default;
  virtual void add(const IntegerGrid& grid, std::span<const std::int32_t> values,
                   std::span<const std::uint8_t> prior) = 0;
  virtual void choose(const IntegerGrid& grid, const Target& target,
                      std::span<const std::uint8_t> prior, std::span<std::int32_t> chosen) = 0;
  virtual double ideal_bits() const = 0;
  virtual std::vector<std::byte> finish() = 0;
};

class DecoderBackend {
 public:
  virtual ~DecoderBackend() = default;
  virtual void read(const IntegerGrid& grid, std::span<std::int32_t> values,
                    std::span<const std::uint8_t> prior) = 0;
  virtual bool at_end() const = 0;
};

}  // namespace gbcompress::codec
