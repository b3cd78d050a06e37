#include "gnet/initialise.h"

#include <algorithm>
#include <cmath>

#include "base/random.h"

namespace gbcompress {
namespace {

/// Standard deviation of the initial numbers of a block.
float initial_deviation(const BankShape& shape, ParameterBlock::Kind kind) {
  const auto rank = static_cast<double>(shape.rank);
  switch (kind) {
    case ParameterBlock::Kind::kWeight:
      return shape.generator == Generator::kStochastic ? 0.01f : 0.1f;
    case ParameterBlock::Kind::kBias:
      return 0;
    case ParameterBlock::Kind::kLatent:
      return 1;
    case ParameterBlock::Kind::kFactor:
      break;
  }
  // Products begin with weights as spread as the original ones: the output scale is twice their
  // deviation, so the product of the matrices needs a deviation of 1/2.
  return static_cast<float>(shape.generator == Generator::kLowRank
                                ? std::pow(0.25 / rank, 1.0 / 4)
                                : std::pow(0.25 / (rank * rank), 1.0 / 6));
}

}  // namespace

void initialise_gnets(const BankShape& shape, std::uint64_t seed, const std::string& name,
                      std::span<float> theta) {
  const RandomStream stream(seed, "init", name);
  const std::int64_t parameters = shape.parameters();
  const std::int64_t tiles = static_cast<std::int64_t>(theta.size()) / parameters;
  float* data = theta.data();
  std::fill(theta.begin(), theta.end(), 0.0f);
  for (std::int64_t tile = 0; tile < tiles; ++tile) {
    for (const ParameterBlock& block : shape.blocks) {
      const float deviation = initial_deviation(shape, block.kind);
      if (deviation == 0) continue;
      const std::int64_t first = tile * parameters + block.first;
      stream.fill_normal({data + first, static_cast<std::size_t>(block.count)}, 0, deviation,
                         static_cast<std::uint64_t>(first));
    }
    if (shape.generator == Generator::kStochastic) {
      float* bias = data + tile * parameters + shape.layers().back().bias;
      bias[0] = 0.01f;
      bias[1] = std::log(0.02f);
    }
  }
}

}  // namespace gbcompress
