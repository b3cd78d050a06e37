#include <ATen/ATen.h>

#include <algorithm>

#include "base/random.h"
#include "bench/samples.h"
#include "gbcompress/bench.h"
#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "gnet/tile_kernel.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kWeights = std::int64_t{1} << 20;
constexpr std::int64_t kAdamWParameters = std::int64_t{1} << 18;

std::span<float> span_of(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

WeightOperations weight_operations(const std::vector<std::int64_t>& hidden) {
  if (hidden.empty()) throw Error(Errc::kUsage, "a g-net needs a hidden layer");
  const auto width = [&](std::size_t l) { return static_cast<double>(hidden[l]); };
  // One hidden layer: maximum and multiply-add; back, a comparison and two masked additions.
  if (hidden.size() == 1) return {2 * width(0), 3 * width(0)};
  // Deeper: addition and maximum of the first layer, products and maximum of the others.
  double products = width(hidden.size() - 1), forward = 2 * width(0);
  for (std::size_t l = 1; l < hidden.size(); ++l) {
    products += width(l - 1) * width(l);
    forward += width(l);
  }
  // Back: everything again, each product once for the weights and once for the layer below, a mask
  // for every unit, and the first layer's two sums.
  double back = 2 * products + 2 * width(0);
  for (std::size_t l = 0; l < hidden.size(); ++l) back += width(l);
  return {forward + products, forward + products + back};
}

EngineRates measure_engine_rates(const BankShape& shape, double seconds) {
  if (!(seconds > 0)) throw Error(Errc::kUsage, "the seconds to measure must be above 0");
  const std::int64_t positions = shape.positions();
  const std::int64_t tiles = std::max<std::int64_t>(1, kWeights / positions);
  const at::Tensor theta = at::empty({tiles, shape.parameters()}, at::kFloat).uniform_(-0.1, 0.1);
  const at::Tensor grad = at::zeros_like(theta);
  const at::Tensor weights = at::empty({tiles, positions}, at::kFloat).uniform_(-1, 1);
  std::vector<TileTarget> targets;
  std::vector<TileSource> sources;
  const RandomStream stream(0, "bench");
  for (std::int64_t t = 0; t < tiles; ++t) {
    float* data = weights.data_ptr<float>() + t * positions;
    const std::int64_t row = shape.tile_cols * shape.kernel;
    TileNoise noise;
    if (shape.generator == Generator::kStochastic)
      noise = {&stream, static_cast<std::uint64_t>(t * positions)};
    targets.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1, noise});
    sources.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1e-6f, noise});
  }
  const at::Tensor parameters = at::empty({kAdamWParameters}, at::kFloat).uniform_(-1, 1);
  const at::Tensor gradients = at::full_like(parameters, 1e-3);
  AdamW optimizer({parameters}, {});

  const auto kernel = make_fused_kernel();
  const auto weight_count = static_cast<double>(tiles * positions);
  RateSampler forward(weight_count), backward(weight_count), adamw(kAdamWParameters);
  const auto start = Clock::now();
  do {
    forward.sample([&] { kernel->forward(shape, span_of(theta), targets); });
    backward.sample([&] { kernel->backward(shape, span_of(theta), sources, span_of(grad)); });
    adamw.sample([&] { optimizer.step({gradients}); });
  } while (seconds_since(start) < seconds);
  return {forward.rate(), backward.rate(), adamw.rate()};
}

}  // namespace gbcompress
