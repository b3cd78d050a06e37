#include "optim/gnet_layer.h"

#include <algorithm>
#include <cmath>

#include "gbcompress/error.h"
#include "gnet/initialise.h"
#include "gnet/tile_memory.h"
#include "optim/adamw_step.h"

namespace gbcompress {
namespace {

/// Values below which another thread costs more than it saves.
constexpr std::int64_t kThreadValues = std::int64_t{1} << 15;

void check_size(const std::string& name, const char* what, std::size_t size, std::int64_t floats) {
  if (static_cast<std::int64_t>(size) != floats)
    throw Error(Errc::kShapeMismatch,
                std::string(what) + " of " + printable(name) + " have " + std::to_string(size) +
                    " elements; the specification needs " + std::to_string(floats));
}

}  // namespace

GnetLayer::GnetLayer(GNetSpec spec, std::string name, std::uint64_t seed,
                     const AdamWOptions& optimizer, GradientScale scale)
    : spec_(std::move(spec)),
      name_(std::move(name)),
      seed_(seed),
      optimizer_(optimizer),
      scale_(scale),
      shape_(bank_shape(spec_)),
      grid_(spec_.grid()) {
  check_optimizer(optimizer_);
  const auto count = static_cast<std::size_t>(spec_parameters(spec_));
  theta_.resize(count);
  gradient_.resize(count);
  initialise_gnets(shape_, seed_, name_, theta_);
}

std::int64_t GnetLayer::floats(TileLayout layout) const {
  return layout == TileLayout::kTiles ? grid_.tiles() * grid_.positions() : grid_.elements();
}

void GnetLayer::zero_grad() { std::fill(gradient_.begin(), gradient_.end(), 0.0f); }

void GnetLayer::predict(const TileKernel& kernel, std::span<float> to, TileLayout layout,
                        std::optional<std::uint64_t> noise) {
  check_size(name_, "the weights", to.size(), floats(layout));
  noise_.reset();
  if (noise && spec_.generator == Generator::kStochastic)
    noise_.emplace(seed_, "weights", name_, *noise);
  std::vector<TileTarget> tiles;
  append_tiles(tiles, grid_, to.data(), layout == TileLayout::kTiles, spec_.output_scale,
               noise_ ? &*noise_ : nullptr);
  kernel.forward(shape_, theta_, tiles);
}

void GnetLayer::backward(const TileKernel& kernel, std::span<const float> from, TileLayout layout,
                         float factor) {
  check_size(name_, "the gradients", from.size(), floats(layout));
  std::vector<TileSource> tiles;
  const float scale = scale_ == GradientScale::kLoss ? spec_.output_scale : gradient_scale(spec_);
  append_tiles(tiles, grid_, from.data(), layout == TileLayout::kTiles, scale * factor,
               noise_ ? &*noise_ : nullptr);
  kernel.backward(shape_, theta_, tiles, gradient_);
  // A gradient that is not finite shows in those of the g-nets, which are far fewer.
  if (!std::all_of(gradient_.begin(), gradient_.end(), [](float g) { return std::isfinite(g); }))
    throw Error(Errc::kNonFinite, "the gradient of " + printable(name_) +
                                      " is not finite at step " + std::to_string(steps_ + 1) +
                                      "; lower the learning rate");
}

void GnetLayer::step(double lr_factor, const RangeRunner& run) {
  check_lr_factor(lr_factor);
  first_.resize(theta_.size());
  second_.resize(theta_.size());
  ++steps_;
  const double lr = optimizer_.lr * lr_factor;
  const auto count = static_cast<std::int64_t>(theta_.size());
  float *const x = theta_.data(), *const m = first_.data(), *const v = second_.data();
  const float* const g = gradient_.data();
  if (optimizer_.optimizer == OptimizerRule::kSgd) {
    const SgdStep step = sgd_factors(optimizer_, lr);
    run(count, kThreadValues, [&](std::int64_t begin, std::int64_t end) {
      sgd_step(step, x + begin, g + begin, m + begin, end - begin);
    });
    return;
  }
  const AdamWStep step = adamw_factors(optimizer_, lr, steps_);
  run(count, kThreadValues, [&](std::int64_t begin, std::int64_t end) {
    adamw_step(step, x + begin, g + begin, m + begin, v + begin, end - begin);
  });
}

void GnetLayer::restore(std::span<const float> theta, float output_scale) {
  check_size(name_, "the g-net parameters", theta.size(), static_cast<std::int64_t>(theta_.size()));
  std::copy(theta.begin(), theta.end(), theta_.begin());
  spec_.output_scale = output_scale;
  first_.clear();
  second_.clear();
  steps_ = 0;
}

void GnetLayer::restore_moments(std::span<const float> first, std::span<const float> second,
                                std::int64_t steps) {
  if (steps < 0)
    throw Error(Errc::kUsage, "the steps of " + printable(name_) + " are " + std::to_string(steps) +
                                  "; they must be at least 0");
  const std::size_t size = steps == 0 ? 0 : theta_.size();
  check_size(name_, "the first moments", first.size(), static_cast<std::int64_t>(size));
  check_size(name_, "the second moments", second.size(), static_cast<std::int64_t>(size));
  first_.assign(first.begin(), first.end());
  second_.assign(second.begin(), second.end());
  steps_ = steps;
}

}  // namespace gbcompress
