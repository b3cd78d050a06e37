#pragma once
/// Integers to code: shapes, scales and classes at random, or exactly as a formula says.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "gbcompress/codec.h"

namespace gbcompress::testing_codec {

struct Tensor {
  IntegerGrid grid;
  std::vector<std::int32_t> values;
  std::vector<std::uint8_t> prior;
};

/// A Laplace number with this scale, from two numbers of a stream.
inline double laplace(const RandomStream& random, std::uint64_t index, double scale) {
  const double size = -scale * std::log((random.bits(2 * index) + 1.0) / 4294967297.0);
  return random.bits(2 * index + 1) % 2 ? size : -size;
}

/// Numbers whose scale differs by row and column, some rows all zero, some numbers huge; a prior in
/// every other tensor, every third one dependent.
inline Tensor random_tensor(std::uint64_t seed) {
  const RandomStream random(seed, "codec");
  std::uint64_t at = 0;
  const auto below = [&](std::uint32_t n) {
    return static_cast<std::int64_t>(random.bits(at++) % n);
  };
  Tensor tensor;
  tensor.grid.rows = 1 + below(seed % 3 ? 40 : 4);
  tensor.grid.cols = 1 + below(seed % 4 ? 90 : 3);
  tensor.grid.stride = below(static_cast<std::uint32_t>(tensor.grid.cols));
  tensor.grid.dependent = seed % 3 == 0;
  const double base = std::exp2(static_cast<double>(below(14)) - 4);
  const RandomStream numbers(seed, "numbers");
  for (std::int64_t row = 0; row < tensor.grid.rows; ++row) {
    const double scale = below(5) ? base * std::exp2(static_cast<double>(below(3))) : 0;
    for (std::int64_t col = 0; col < tensor.grid.cols; ++col) {
      double value = laplace(numbers, tensor.values.size(), scale * (col % 3 + 1));
      if (below(500) == 0) value = static_cast<double>(below(1 << 20));
      const double bound = kMaxMagnitude;
      tensor.values.push_back(
          static_cast<std::int32_t>(std::lrint(std::clamp(value, -bound, bound))));
      if (seed % 2) tensor.prior.push_back(static_cast<std::uint8_t>(col % 16));
    }
  }
  return tensor;
}

/// The grid as that profile codes it: its states in lanes or not.
inline IntegerGrid form_for(CodecProfile profile, IntegerGrid grid) {
  grid.lanes = grid.dependent && profile == CodecProfile::kLanes;
  return grid;
}

inline std::vector<std::byte> encode(CodecProfile profile, const std::vector<Tensor>& tensors) {
  IntegerEncoder encoder(profile);
  for (const Tensor& tensor : tensors)
    encoder.add(form_for(profile, tensor.grid), tensor.values, tensor.prior);
  return encoder.finish();
}

/// Reads the tensors back. @throws Error as the decoder does
inline std::vector<std::vector<std::int32_t>> decode(CodecProfile profile,
                                                     std::span<const std::byte> stream,
                                                     const std::vector<Tensor>& tensors) {
  IntegerDecoder decoder(profile, stream);
  std::vector<std::vector<std::int32_t>> found;
  for (const Tensor& tensor : tensors) {
    found.emplace_back(tensor.values.size());
    decoder.read(form_for(profile, tensor.grid), found.back(), tensor.prior);
  }
  decoder.finish();
  return found;
}

}  // namespace gbcompress::testing_codec
