#include "feedback.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <cmath>

namespace gbcompress::dtp {
namespace {

/// The part of the noise's curvature that one step of SGD takes away; what the published rates of
/// all layers have in common (docs/strategies.md).
constexpr double kUsualPart = 2e-3;
constexpr double kUsualAdam = 1e-3;
/// With more inputs to a weight's sum than so many for each row (and position), the noise of a
/// batch says too little of each: the rate is lowered in proportion.
constexpr double kInputsPerRow = 4;

std::vector<std::int64_t> row_shape(const at::Tensor& batch) {
  return batch.sizes().slice(1).vec();
}

}  // namespace

Feedback::Feedback(const Stage& stage, const at::Tensor& example, const Settings& settings,
                   const LayerSettings& own, std::uint64_t seed)
    : name_(stage.name), settings_(settings), own_(own), seed_(seed) {
  const c10::NoGradGuard no_grad;
  chain_ = make_chain(stage, example, seed);
  std::int64_t total = 0;
  for (const auto& layer : chain_) {
    affine_ = affine_ && layer->affine();
    for (const at::Tensor& p : layer->parameters()) total += p.numel();
  }
  weights_ = at::empty({total}, at::kFloat);
  gradient_ = at::zeros({total}, at::kFloat);
  std::int64_t at = 0;
  for (const auto& layer : chain_)
    for (at::Tensor& p : layer->parameters()) {
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
  if (settings.symmetric)
    for (const auto& layer : chain_) layer->make_symmetric();
  momentum_ = at::zeros({total}, at::kFloat);
  if (settings.variant != Variant::kDtp && total > 0) {
    AdamWOptions options;
    options.lr = own_.rate;
    options.weight_decay = 0;
    adam_.emplace(std::vector{weights_}, options);
  }
}

/// Where it is not given. SGD's, for a loss whose curvature is that of the mean of |G dy|^2: what G
/// makes of noise, beside the size of its weights, says how many positions share a weight.
void Feedback::choose_rate(const at::Tensor& example) {
  if (own_.rate > 0) return;
  if (settings_.variant != Variant::kDtp) {
    own_.rate = kUsualAdam;
    return;
  }
  const StageCall one = call(example);
  const std::int64_t sample = 0;
  const at::Tensor dy =
      normal_noise({seed_, "dtp.rate", name_, 0}, {&sample, 1}, row_shape(one.output));
  const double answer = back(dy, one.records, affine_).square().sum().item<double>();
  const double size = weights_.square().sum().item<double>();
  const double positions = answer > 0 && size > 0 ? answer / size : 1;
  own_.rate = kUsualPart / (own_.sigma * own_.sigma * positions);
  needed_rows_ = static_cast<double>(weights_.numel()) /
                 (static_cast<double>(one.output.size(1)) * positions) / kInputsPerRow;
}

at::Tensor Feedback::forward(const at::Tensor& input, std::vector<CallRecord>& records) const {
  records.assign(chain_.size(), {});
  at::Tensor x = input;
  for (std::size_t i = 0; i < chain_.size(); ++i) x = chain_[i]->forward(x, records[i]);
  return x;
}

at::Tensor Feedback::back(const at::Tensor& output, const std::vector<CallRecord>& records,
                          bool difference) const {
  at::Tensor y = output;
  for (std::size_t i = chain_.size(); i-- > 0;) y = chain_[i]->inverse(y, records[i], difference);
  return y;
}

StageCall Feedback::call(const at::Tensor& input) const {
  const c10::NoGradGuard no_grad;
  StageCall result{input, {}, {}};
  result.output = forward(input, result.records);
  return result;
}

at::Tensor Feedback::action(const StageCall& call, const at::Tensor& change) const {
  const c10::NoGradGuard no_grad;
  if (affine_) return back(change, call.records, true);
  return back(call.output + change, call.records, false) - back(call.output, call.records, false);
}

at::Tensor Feedback::target(const StageCall& call, const at::Tensor& output_target) const {
  const c10::NoGradGuard no_grad;
  if (settings_.variant == Variant::kTp) return back(output_target, call.records, false);
  return call.input + action(call, output_target - call.output);
}

/// Summed over the rows of the call.
at::Tensor Feedback::loss(const StageCall& call, std::span<const std::int64_t> samples,
                          std::uint64_t step, std::int64_t iteration) const {
  const std::string layer = name_ + "#" + std::to_string(iteration);
  at::Tensor dx, dy, noisy;
  std::vector<CallRecord> noisy_records;
  const bool reconstructs =
      settings_.variant == Variant::kVanilla || settings_.variant == Variant::kTp;
  {
    const c10::NoGradGuard no_grad;
    dx = normal_noise({seed_, "dtp.input", layer, step}, samples, row_shape(call.input))
             .mul_(own_.sigma);
    noisy = forward(call.input + dx, noisy_records);
    if (!reconstructs)
      dy = normal_noise({seed_, "dtp.output", layer, step}, samples, row_shape(call.output))
               .mul_(own_.sigma);
  }
  if (reconstructs) return (call.input + dx - back(noisy, noisy_records, false)).square().sum();
  if (affine_)  // biases and what they add to cancel
    return back(dy, call.records, true).square().sum() -
           2 * (dx * back(noisy - call.output, call.records, true)).sum();
  const at::Tensor r = back(call.output, call.records, false);
  return (back(call.output + dy, call.records, false) - r).square().sum() -
         2 * (dx * (back(noisy, call.records, false) - r)).sum();
}

double Feedback::accumulate(const StageCall& call, std::span<const std::int64_t> samples,
                            double rows, std::uint64_t step, std::int64_t iteration,
                            at::Tensor& gradient) {
  gradient_.zero_();
  const c10::AutoGradMode with_grad(true);
  const at::Tensor mean = loss(call, samples, step, iteration) / rows;
  mean.backward();
  const c10::NoGradGuard no_grad;
  gradient.add_(gradient_);
  return mean.item<double>();
}

void Feedback::update(const at::Tensor& gradient, double rows) {
  const c10::NoGradGuard no_grad;
  if (adam_) {
    adam_->step({gradient});
    return;
  }
  momentum_.mul_(settings_.momentum).add_(gradient);
  weights_.sub_(momentum_, own_.rate * std::min(1.0, rows / needed_rows_));
}

std::vector<at::Tensor> Feedback::memory() const {
  const at::Tensor rate = at::tensor({own_.rate, needed_rows_}, at::kDouble);
  if (!adam_) return {rate, momentum_.clone()};
  const AdamW::State state = adam_->state();
  return {rate, state.first[0], state.second[0], at::full({1}, state.steps[0], at::kLong)};
}

void Feedback::restore_memory(const std::vector<at::Tensor>& memory) {
  const c10::NoGradGuard no_grad;
  own_.rate = memory.at(0)[0].item<double>();
  needed_rows_ = memory.at(0)[1].item<double>();
  if (adam_)
    adam_->restore({{memory.at(3).item<std::int64_t>()}, {memory.at(1)}, {memory.at(2)}});
  else
    momentum_.copy_(memory.at(1));
}

}  // namespace gbcompress::dtp
