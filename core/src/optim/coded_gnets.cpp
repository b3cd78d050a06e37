#include "optim/coded_gnets.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "artifact/integers/integers.h"
#include "gbcompress/error.h"
#include "optim/adamw_step.h"
#include "rate/laplace_rate.h"

namespace gbcompress {
namespace {

/// Bits are counted for who watches, at every so many steps.
constexpr std::int64_t kStepsPerBitCount = 10;

std::string block_name(const std::string& name, std::size_t block) {
  return name + "#theta" + std::to_string(block);
}

}  // namespace

CodedGnets::CodedGnets(const GNetSpec& spec, const std::string& name, std::uint64_t seed,
                       const AdamWOptions& optimizer, double step_speed)
    : gnets_(spec, name, seed, optimizer, GradientScale::kLoss),
      name_(name),
      seed_(seed),
      optimizer_(optimizer),
      weight_decay_(optimizer.weight_decay),
      speed_(step_speed) {
  optimizer_.weight_decay = 0;
  const std::vector<IntegerGrid> grids = theta_grids(spec);
  const auto tiles = static_cast<std::size_t>(spec.grid().tiles());
  std::size_t first = 0;
  for (const ParameterBlock& each : gnet_blocks(spec)) {
    const auto columns = static_cast<std::size_t>(each.count);
    blocks_.push_back({static_cast<std::size_t>(each.first), columns, first, tiles * columns,
                       grids[blocks_.size()], std::nullopt});
    first += tiles * columns;
  }
  inverse_scales_.assign(first, static_cast<float>(1 / kFirstScale));
  values_.resize(first + blocks_.size());
  gradients_.resize(values_.size());
  take();
  for (std::size_t b = 0; b < blocks_.size(); ++b)
    log_step(b) = log_of_step(first_step(spread_of(latents(blocks_[b]), on_this_thread())), speed_);
}

template <typename Numbers, typename Visit>
void CodedGnets::for_tiles(const Block& block, Numbers numbers, const Visit& visit) {
  const auto parameters = static_cast<std::size_t>(gnets_.shape().parameters());
  const std::span<float> theta = gnets_.theta();
  for (std::size_t t = 0; t * block.columns < block.count; ++t)
    visit(theta.subspan(t * parameters + block.column, block.columns),
          numbers.subspan(t * block.columns, block.columns));
}

void CodedGnets::take() {
  for (Block& block : blocks_) {
    block.chosen.reset();
    for_tiles(block, part(values_, block), [](std::span<float> theta, std::span<float> latents) {
      std::copy(theta.begin(), theta.end(), latents.begin());
    });
  }
}

void CodedGnets::write_rounded() {
  std::vector<float> rounded;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    if (block.as_is) continue;
    const float step = step_size(step_index(b));
    rounded.resize(block.count);
    if (block.chosen)
      std::transform(block.chosen->begin(), block.chosen->end(), rounded.begin(),
                     [&](std::int32_t n) { return static_cast<float>(n) * step; });
    else
      round_to_step(latents(block), step, rounded.data());
    for_tiles(block, std::span<float>(rounded), [](std::span<float> theta, std::span<float> from) {
      std::copy(from.begin(), from.end(), theta.begin());
    });
  }
}

std::span<const float> CodedGnets::theta() {
  write_rounded();
  return gnets_.theta();
}

void CodedGnets::predict(const TileKernel& kernel, std::span<float> to, TileLayout layout,
                         std::optional<std::uint64_t> noise) {
  write_rounded();
  gnets_.predict(kernel, to, layout, noise);
}

void CodedGnets::backward(const TileKernel& kernel, std::span<const float> from, TileLayout layout,
                          float factor) {
  gnets_.backward(kernel, from, layout, factor);
}

void CodedGnets::add_rate(double weight) {
  const bool count = steps_ % kStepsPerBitCount == 0;
  const auto parameters = static_cast<std::size_t>(gnets_.shape().parameters());
  const std::span<const float> loss = gnets_.gradient();
  if (count) bits_ = 0;
  double sum = 0;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    block.chosen.reset();
    block.as_is = false;
    const std::span<float> gradient = part(gradients_, block);
    for (std::size_t t = 0; t * block.columns < block.count; ++t)
      std::copy_n(loss.begin() + static_cast<std::ptrdiff_t>(t * parameters + block.column),
                  block.columns, gradient.begin() + static_cast<std::ptrdiff_t>(t * block.columns));
    const std::uint32_t key =
        RandomStream(seed_, "rate", block_name(name_, b), static_cast<std::uint64_t>(steps_))
            .bits(0);
    const float step = step_size(step_index(b));
    double bits = 0, log_step_gradient = 0;
    for (const Segment& s : segments_of(static_cast<std::int64_t>(block.count), 1)) {
      const auto first = static_cast<std::size_t>(s.first), n = static_cast<std::size_t>(s.count);
      const RateSums sums =
          laplace_rate(latents(block).subspan(first, n), step,
                       part(inverse_scales_, block).subspan(first, n), static_cast<float>(weight),
                       key, static_cast<std::uint32_t>(first), gradient.subspan(first, n), count);
      bits += sums.bits;
      log_step_gradient += sums.log_step_gradient * speed_;
    }
    bits_ += bits;
    gradients_[inverse_scales_.size() + b] = static_cast<float>(log_step_gradient);
  }
  for (const float g : gradients_) sum += static_cast<double>(g);
  if (!std::isfinite(sum))
    throw Error(Errc::kNonFinite, "the gradient of " + printable(name_) +
                                      " is not finite at step " + std::to_string(steps_ + 1) +
                                      "; lower the learning rate");
}

void CodedGnets::step(double lr_factor) {
  check_lr_factor(lr_factor);
  const std::size_t latents = inverse_scales_.size(), count = values_.size();
  first_.resize(count);
  second_.resize(count);
  ++steps_;
  const double lr = optimizer_.lr * lr_factor;
  if (weight_decay_ > 0) {
    const auto keep = static_cast<float>(1 - lr * weight_decay_);
    for (std::size_t i = 0; i < latents; ++i) values_[i] *= keep;
  }
  float *const x = values_.data(), *const m = first_.data(), *const v = second_.data();
  const auto n = static_cast<std::int64_t>(count);
  if (optimizer_.optimizer == OptimizerRule::kSgd)
    sgd_step(sgd_factors(optimizer_, lr), x, gradients_.data(), m, n);
  else
    adamw_step(adamw_factors(optimizer_, lr, steps_), x, gradients_.data(), m, v, n);
}

std::vector<std::int32_t> CodedGnets::nearest(std::size_t b) const {
  std::vector<std::int32_t> result(blocks_[b].count);
  nearest_integers(latents(blocks_[b]), step_size(step_index(b)), result.data());
  return result;
}

void CodedGnets::expect(bool contexts) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    const Block& block = blocks_[b];
    const std::span<float> to = part(inverse_scales_, block);
    if (contexts) {
      const std::vector<float> scales = expected_scales(block.grid, nearest(b));
      std::transform(scales.begin(), scales.end(), to.begin(), [](float s) { return 1 / s; });
      continue;
    }
    const float inverse = 1 / step_size(step_index(b));
    std::vector<float> scaled(block.count);
    std::transform(latents(block).begin(), latents(block).end(), scaled.begin(),
                   [&](float x) { return x * inverse; });
    const double magnitudes = sum_of(std::span<const float>(scaled), on_this_thread(),
                                     [](double x) { return std::fabs(x); });
    std::fill(to.begin(), to.end(),
              inverse_scale_of(magnitudes / static_cast<double>(block.count)));
  }
}

void CodedGnets::scale_steps(double factor) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    double largest = 0;
    for (const float x : latents(blocks_[b]))
      largest = std::max(largest, std::fabs(static_cast<double>(x)));
    log_step(b) = scaled_log_step(log_step(b), factor, largest, speed_);
  }
  const auto by = static_cast<float>(factor);
  for (float& scale : inverse_scales_)
    scale = std::clamp(scale * by, static_cast<float>(1 / kLargestExpected),
                       static_cast<float>(1 / kLeastExpected));
}

void CodedGnets::choose(double lambda, IntegerEncoder& encoder) {
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    Block& block = blocks_[b];
    const float inverse = 1 / step_size(step_index(b));
    std::vector<float> scaled(block.count);
    std::transform(latents(block).begin(), latents(block).end(), scaled.begin(),
                   [&](float x) { return x * inverse; });
    block.chosen = encoder.quantize_and_add(block.grid, scaled, {}, lambda);
    block.as_is = false;
  }
}

void CodedGnets::forget_chosen() {
  for (Block& block : blocks_) {
    block.chosen.reset();
    block.as_is = false;
  }
}

CodedTheta CodedGnets::coded() const {
  CodedTheta result;
  std::vector<std::int32_t> all;
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    result.steps.push_back(step_index(b));
    const std::vector<std::int32_t> own = blocks_[b].chosen ? *blocks_[b].chosen : nearest(b);
    all.insert(all.end(), own.begin(), own.end());
  }
  result.integers = from_blocks(spec(), all);
  return result;
}

void CodedGnets::restore(std::span<const float> theta, float output_scale,
                         const std::vector<int>& theta_steps) {
  if (!theta_steps.empty() && theta_steps.size() != blocks_.size())
    throw Error(Errc::kShapeMismatch,
                "the steps of " + printable(name_) + " are " + std::to_string(theta_steps.size()) +
                    "; the specification has " + std::to_string(blocks_.size()) + " blocks");
  gnets_.restore(theta, output_scale);
  take();
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    if (!theta_steps.empty())
      log_step(b) = log_of_step(static_cast<double>(step_size(theta_steps[b])), speed_);
    blocks_[b].as_is = true;
  }
  first_.clear();
  second_.clear();
  steps_ = 0;
}

CodedGnets::State CodedGnets::state() const {
  return {values_, first_, second_, inverse_scales_, steps_};
}

void CodedGnets::restore_state(State state, float output_scale) {
  const std::size_t moments = state.steps == 0 ? 0 : values_.size();
  if (state.steps < 0)
    throw Error(Errc::kUsage, "the steps of " + printable(name_) + " must be at least 0");
  if (state.values.size() != values_.size() || state.first.size() != moments ||
      state.second.size() != moments || state.inverse_scales.size() != inverse_scales_.size())
    throw Error(Errc::kShapeMismatch, "the state of " + printable(name_) + " is of other g-nets");
  const std::vector<float> theta(gnets_.theta().begin(), gnets_.theta().end());
  gnets_.restore(theta, output_scale);
  values_ = std::move(state.values);
  first_ = std::move(state.first);
  second_ = std::move(state.second);
  inverse_scales_ = std::move(state.inverse_scales);
  steps_ = state.steps;
  forget_chosen();
}

}  // namespace gbcompress
