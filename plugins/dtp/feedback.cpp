#include "feedback.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

#include "../common/channels_last.h"

namespace gbcompress::dtp {
namespace {

/// The part of the noise's curvature that one step of SGD takes away; what the published rates of
/// all layers have in common (docs/explanation/strategies.md).
constexpr double kUsualPart = 2e-3;
constexpr double kUsualAdam = 1e-3;
/// With more inputs to a weight's sum than so many for each row (and position), the noise of a
/// batch says too little of each: the rate is lowered in proportion.
constexpr double kInputsPerRow = 4;

/// Noise for each number of a batch, in the batch's layout.
at::Tensor noise_for(const at::Tensor& batch, const NoiseKey& key,
                     std::span<const std::int64_t> samples) {
  const at::Tensor noise =
      normal_noise(key, samples, batch.sizes().slice(1).vec()).to(batch.device());
  return batch.is_contiguous() ? noise : channels_last(noise);
}

}  // namespace

Feedback::Feedback(const Stage& stage, const at::Tensor& example, const Settings& settings,
                   const LayerSettings& own, std::uint64_t seed)
    : name_(stage.name), settings_(settings), own_(own), seed_(seed) {
  const c10::NoGradGuard no_grad;
  way_ = invert_stage(stage, example, seed, settings.inverse);
  affine_ = way_->affine();
  std::vector<at::Tensor> parameters = way_->parameters();
  std::int64_t total = 0;
  for (const at::Tensor& p : parameters) total += p.numel();
  const at::TensorOptions where = at::TensorOptions(at::kFloat).device(example.device());
  weights_ = at::empty({total}, where);
  gradient_ = at::zeros({total}, where);
  std::int64_t at = 0;
  for (at::Tensor& p : parameters) {
    const auto part = [&](at::Tensor& whole) {
      return whole.narrow(0, at, p.numel()).view(p.sizes());
    };
    const at::Tensor own_part = part(weights_);
    own_part.copy_(p);
    p.set_data(own_part);
    p.set_requires_grad(true);
    p.mutable_grad() = part(gradient_);
    at += p.numel();
  }
  if (total > 0) choose_rate(example);
  if (settings.symmetric) way_->make_symmetric();
  if (total == 0) return;
  AdamWOptions options;
  options.lr = 1;  // times own_.rate, which another rank may have chosen
  options.beta2 = settings.beta2;
  options.weight_decay = settings.decay;
  if (settings.optimizer == FeedbackOptimizer::kSgd) {
    options.optimizer = OptimizerRule::kSgd;
    options.momentum = settings.momentum;
  }
  optimizer_.emplace(std::vector{weights_}, options);
}

/// Where it is not given. SGD's, for a loss whose curvature is that of the mean of |G dy|^2: what G
/// makes of noise, beside the size of its weights, says how many positions share a weight.
void Feedback::choose_rate(const at::Tensor& example) {
  if (own_.rate > 0) return;
  if (settings_.optimizer == FeedbackOptimizer::kAdam) {
    own_.rate = kUsualAdam;
    return;
  }
  const StageCall one = call(example);
  const std::int64_t sample = 0;
  const at::Tensor dy = noise_for(one.output, {seed_, "dtp.rate", name_, 0}, {&sample, 1});
  const double answer = way_->inverse(dy, one.record, affine_).square().sum().item<double>();
  const double size = weights_.square().sum().item<double>();
  const double positions = answer > 0 && size > 0 ? answer / size : 1;
  own_.rate = kUsualPart / (own_.sigma * own_.sigma * positions);
  chooses_ = true;
  needed_rows_ = static_cast<double>(weights_.numel()) /
                 (static_cast<double>(one.output.size(1)) * positions) / kInputsPerRow;
}

double Feedback::steepness(const StageCall& call, const at::Tensor& dy) const {
  const std::vector<at::Tensor> weights = way_->parameters();
  at::Tensor answer;
  {
    const c10::AutoGradMode with_grad(true);
    answer = way_->inverse(dy, call.record, affine_).square().sum();
    gradient_.zero_();
    answer.backward();
  }
  double sum = 0;
  for (const at::Tensor& w : weights) {
    // The answer is homogeneous of degree 2 in a weight that multiplies, and does not depend on
    // others.
    const double along = w.mul(w.grad()).sum().item<double>() / 2;
    const double size = w.square().sum().item<double>();
    if (size > 0) sum += along / size;
  }
  return sum / static_cast<double>(dy.size(0));
}

void Feedback::follow_statistics(const StageCall& batch, std::span<const std::int64_t> samples,
                                 std::uint64_t step) {
  if (!chooses_ || !affine_) return;
  const c10::NoGradGuard no_grad;
  const at::Tensor dy = noise_for(batch.output, {seed_, "dtp.rate", name_, step}, samples);
  const double steep = steepness(batch, dy);
  if (steep > 0 && std::isfinite(steep)) own_.rate = kUsualPart / (own_.sigma * own_.sigma * steep);
}

StageCall Feedback::call(const at::Tensor& input) const {
  const c10::NoGradGuard no_grad;
  StageCall result{input, {}, {}};
  result.output = way_->forward(input, result.record);
  return result;
}

at::Tensor Feedback::action(const StageCall& call, const at::Tensor& change) const {
  const c10::NoGradGuard no_grad;
  if (affine_) return way_->inverse(change, call.record, true);
  return way_->inverse(call.output + change, call.record, false) -
         way_->inverse(call.output, call.record, false);
}

at::Tensor Feedback::target(const StageCall& call, const at::Tensor& output_target) const {
  const c10::NoGradGuard no_grad;
  if (settings_.variant == Variant::kTp) return way_->inverse(output_target, call.record, false);
  return call.input + action(call, output_target - call.output);
}

/// Summed over the rows of the call.
at::Tensor Feedback::loss(const StageCall& call, std::span<const std::int64_t> samples,
                          std::uint64_t step, const std::string& noise) const {
  const std::string layer = name_ + "#" + noise;
  at::Tensor dx, dy, noisy;
  CallRecord noisy_record;
  const bool reconstructs =
      settings_.variant == Variant::kVanilla || settings_.variant == Variant::kTp;
  {
    const c10::NoGradGuard no_grad;
    dx = noise_for(call.input, {seed_, "dtp.input", layer, step}, samples).mul_(own_.sigma);
    noisy = way_->forward(call.input + dx, noisy_record);
    if (!reconstructs)
      dy = noise_for(call.output, {seed_, "dtp.output", layer, step}, samples).mul_(own_.sigma);
  }
  if (reconstructs)
    return (call.input + dx - way_->inverse(noisy, noisy_record, false)).square().sum();
  if (affine_)  // biases and what they add to cancel
    return way_->inverse(dy, call.record, true).square().sum() -
           2 * (dx * way_->inverse(noisy - call.output, call.record, true)).sum();
  const at::Tensor r = way_->inverse(call.output, call.record, false);
  // In published form a pool puts the noisy values back to the places of the noisy call.
  const CallRecord& of_noisy =
      settings_.inverse == InverseForm::kPublished ? noisy_record : call.record;
  return (way_->inverse(call.output + dy, call.record, false) - r).square().sum() -
         2 * (dx * (way_->inverse(noisy, of_noisy, false) - r)).sum();
}

double Feedback::accumulate(const StageCall& call, std::span<const std::int64_t> samples,
                            double rows, std::uint64_t step, std::int64_t iteration,
                            at::Tensor& gradient) {
  gradient_.zero_();
  const c10::AutoGradMode with_grad(true);
  double mean = 0;
  for (std::int64_t draw = 0; draw < settings_.samples; ++draw) {
    std::string noise = std::to_string(iteration);
    if (draw > 0) {
      noise += '.';
      noise += std::to_string(draw);
    }
    const at::Tensor part =
        loss(call, samples, step, noise) / (rows * static_cast<double>(settings_.samples));
    part.backward();
    mean += part.item<double>();
  }
  const c10::NoGradGuard no_grad;
  gradient.add_(gradient_);
  return mean;
}

void Feedback::update(const at::Tensor& gradient, double rows) {
  const c10::NoGradGuard no_grad;
  const bool descends = settings_.optimizer == FeedbackOptimizer::kSgd;
  optimizer_->step({gradient}, own_.rate * (descends ? std::min(1.0, rows / needed_rows_) : 1));
}

std::vector<at::Tensor> Feedback::memory() const {
  const at::Tensor rate = at::tensor({own_.rate, needed_rows_}, at::kDouble);
  if (!optimizer_) return {rate, weights_.clone()};
  const AdamW::State state = optimizer_->state();
  if (settings_.optimizer == FeedbackOptimizer::kSgd) return {rate, state.first[0]};
  return {rate, state.first[0], state.second[0], at::full({1}, state.steps[0], at::kLong)};
}

void Feedback::restore_memory(const std::vector<at::Tensor>& memory) {
  const c10::NoGradGuard no_grad;
  own_.rate = memory.at(0)[0].item<double>();
  needed_rows_ = memory.at(0)[1].item<double>();
  if (!optimizer_) return;
  if (settings_.optimizer == FeedbackOptimizer::kSgd)
    optimizer_->restore({{0}, {memory.at(1)}, {at::zeros_like(memory.at(1))}});
  else
    optimizer_->restore({{memory.at(3).item<std::int64_t>()}, {memory.at(1)}, {memory.at(2)}});
}

}  // namespace gbcompress::dtp
