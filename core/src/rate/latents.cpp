#include "rate/latents.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/random.h"
#include "rate/laplace_rate.h"

namespace gbcompress {
namespace {

/// The first step, as a part of the values' deviation; where all values are alike, by itself.
constexpr double kFirstStep = 0.2, kStepWithoutSpread = 0.02;
/// An optimiser moves a number by about its learning rate a step, which suits weights; steps have
/// octaves to go in the same time.
constexpr double kStepSpeed = 10;
/// Steps of vectors beside those of matrices, where nothing is trained.
constexpr double kVectorStep = 0.125;
/// The expected scale before anything is known, in steps.
constexpr double kFirstScale = 3;
constexpr double kLeastScale = 0.02, kLargestScale = 1000;
/// Numbers that one call of a kernel takes: sums have the same bits for any number of threads.
constexpr std::int64_t kPiece = 1 << 14;
/// Where there are more numbers, a sample has the first ones of each piece.
constexpr std::int64_t kAllSampled = 1 << 20, kSampled = kPiece / 16;

std::span<float> span_of(const at::Tensor& dense, std::int64_t first, std::int64_t count) {
  return {dense.data_ptr<float>() + first, static_cast<std::size_t>(count)};
}

/// Calls body(piece, first, count) for the pieces of n numbers, in parallel.
template <typename Body>
void for_pieces(std::int64_t n, const Body& body) {
  at::parallel_for(0, (n + kPiece - 1) / kPiece, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      body(static_cast<std::size_t>(p), p * kPiece, std::min(kPiece, n - p * kPiece));
  });
}

/// Sum of f(numbers, index of their first) over the pieces of a tensor, or the `longest` first
/// numbers of each. In double and in one order: LibTorch's sums depend on the number of threads.
template <typename F>
double sum_pieces(const at::Tensor& dense, const F& f, std::int64_t longest = kPiece) {
  const std::int64_t n = dense.numel(), pieces = (n + kPiece - 1) / kPiece;
  std::vector<double> sums(static_cast<std::size_t>(pieces));
  at::parallel_for(
      0, static_cast<std::int64_t>(sums.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t first = i * kPiece;
          const std::span<const float> numbers =
              span_of(dense, first, std::min(longest, n - first));
          sums[static_cast<std::size_t>(i)] = f(numbers, static_cast<std::size_t>(first));
        }
      });
  double total = 0;
  for (const double sum : sums) total += sum;
  return total;
}

template <typename F>
double sum_of(const at::Tensor& dense, const F& f) {
  return sum_pieces(dense, [&](std::span<const float> numbers, std::size_t) {
    double sum = 0;
    for (const float x : numbers) sum += f(static_cast<double>(x));
    return sum;
  });
}

/// Rounded to nearest, ties to even, in any number of lanes: adding this leaves no room for a
/// fraction. Beyond it numbers are too large for the coder anyway.
float whole(float x) {
  constexpr float kNoFraction = 0x1.8p23f;
  return x + kNoFraction - kNoFraction;
}

double deviation(const at::Tensor& dense) {
  const double n = static_cast<double>(dense.numel());
  if (n < 2) return 0;
  const double mean = sum_of(dense, [](double x) { return x; }) / n;
  return std::sqrt(sum_of(dense, [&](double x) { return (x - mean) * (x - mean); }) / (n - 1));
}

}  // namespace

void Latents::add(std::string name, at::Tensor live, std::optional<IntegerGrid> grid) {
  const at::NoGradGuard no_grad;
  Entry entry;
  entry.name = std::move(name);
  entry.live = live;
  entry.latent = live.detach().to(at::kFloat).clone(at::MemoryFormat::Contiguous);
  entry.spread = deviation(entry.latent);
  entry.log_step = at::zeros({1}, at::kFloat);
  entry.set_step(entry.spread > 0 ? kFirstStep * entry.spread : kStepWithoutSpread);
  entry.step_gradient = at::zeros_like(entry.log_step);
  entry.grid = grid ? *grid : default_grid(live.sizes().vec());
  entries_.push_back(std::move(entry));
}

void Latents::take(std::size_t index, std::optional<int> step) {
  const at::NoGradGuard no_grad;
  Entry& entry = entries_.at(index);
  entry.latent.copy_(entry.live.detach());
  if (step) entry.set_step(static_cast<double>(step_size(*step)));
  entry.chosen.reset();
}

void Latents::Entry::set_step(double size) { log_step.fill_(std::log(size) / kStepSpeed); }

int Latents::Entry::step_index() const {
  return nearest_step(std::exp(static_cast<float>(kStepSpeed) * log_step.item<float>()));
}

int Latents::Entry::step_index(double size, double evenness) const {
  if (step_factor > 0) return nearest_step(static_cast<float>(size * step_factor));
  if (spread > 0) size *= std::pow(spread, evenness);
  if (grid.rows == 1) size *= kVectorStep;
  return nearest_step(static_cast<float>(size));
}

void Latents::set_step_factors(const std::vector<double>& factors) {
  for (std::size_t i = 0; i < entries_.size(); ++i)
    entries_[i].step_factor = factors.empty() ? 0 : factors.at(i);
}

at::Tensor Latents::Entry::scale() const {
  if (!inverse_scale.defined()) inverse_scale = at::full_like(latent, 1 / kFirstScale);
  return inverse_scale;
}

std::vector<std::int32_t> Latents::Entry::nearest(float size,
                                                  std::vector<std::int32_t> integers) const {
  integers.resize(static_cast<std::size_t>(latent.numel()));
  const float inverse = 1 / size;
  for_pieces(latent.numel(), [&](std::size_t, std::int64_t first, std::int64_t count) {
    std::vector<float> buffer;
    const std::span<const float> from = residual(first, count, buffer);
    for (std::size_t i = 0; i < from.size(); ++i) {
      const float scaled = from[i] * inverse;
      integers[static_cast<std::size_t>(first) + i] = static_cast<std::int32_t>(
          std::fabs(scaled) < 0x1p22f ? whole(scaled) : std::clamp(scaled, -0x1p30f, 0x1p30f));
    }
  });
  return integers;
}

void Latents::predict() {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    const float step = entry.step();
    const bool direct = entry.live.scalar_type() == at::kFloat && entry.live.is_contiguous();
    at::Tensor to = direct ? entry.live.detach() : at::empty_like(entry.latent);
    float* data = to.data_ptr<float>();
    if (entry.chosen) {
      const std::vector<float> values = coded_floats(*entry.chosen);
      std::copy(values.begin(), values.end(), data);
    } else {
      for_pieces(entry.latent.numel(), [&](std::size_t, std::int64_t first, std::int64_t count) {
        std::vector<float> buffer;
        round_to_step(entry.residual(first, count, buffer), step, data + first);
      });
    }
    if (entry.prior) to.add_(entry.prior->mean);
    if (direct)
      entry.live.unsafeGetTensorImpl()->bump_version();  // autograd must notice the write
    else
      entry.live.copy_(to);
  }
}

void Latents::backward(double weight, std::uint64_t step) {
  const at::NoGradGuard no_grad;
  bits_ = 0;
  for (Entry& entry : entries_) {
    entry.chosen.reset();
    if (!entry.latent_gradient.defined()) entry.latent_gradient = at::empty_like(entry.latent);
    entry.latent_gradient.copy_(entry.live.grad());
    const float size = entry.step();
    const at::Tensor scale = entry.scale();
    const std::uint32_t key = RandomStream(seed_, "rate", entry.name, step).bits(0);
    const std::int64_t n = entry.latent.numel();
    std::vector<RateSums> sums(static_cast<std::size_t>((n + kPiece - 1) / kPiece));
    for_pieces(n, [&](std::size_t piece, std::int64_t first, std::int64_t count) {
      std::vector<float> buffer;
      sums[piece] =
          laplace_rate(entry.residual(first, count, buffer), size, span_of(scale, first, count),
                       static_cast<float>(weight), key, static_cast<std::uint32_t>(first),
                       span_of(entry.latent_gradient, first, count));
    });
    double gradient = 0;
    for (const RateSums& sum : sums) {
      bits_ += sum.bits;
      gradient += sum.log_step_gradient;
    }
    entry.step_gradient.fill_(gradient * kStepSpeed);
    if (!entry.prior) continue;
    entry.prior_gradients(weight);
    // Of a number that is rounded off its mean, the loss does not feel the mean: only the rate
    // does, and there it is worth what the number itself is, the other way round.
    at::sub_out(entry.prior->mean_gradient, entry.live.grad().to(at::kFloat),
                entry.latent_gradient);
  }
}

void Latents::expect(bool contexts) {
  const at::NoGradGuard no_grad;
  at::parallel_for(
      0, static_cast<std::int64_t>(entries_.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Entry& entry = entries_[static_cast<std::size_t>(i)];
          if (contexts) {
            const std::vector<float> scales =
                expected_scales(entry.grid, entry.nearest(entry.step()), entry.classes());
            float* inverse = entry.scale().data_ptr<float>();
            for (std::size_t j = 0; j < scales.size(); ++j) inverse[j] = 1 / scales[j];
          } else {
            // The most likely scale of a Laplace distribution is the mean magnitude.
            const double mean =
                sum_of(entry.residual(), [](double x) { return std::fabs(x); }) /
                (static_cast<double>(entry.latent.numel()) * static_cast<double>(entry.step()));
            entry.scale().fill_(1 / std::clamp(mean, kLeastScale, kLargestScale));
          }
        }
      });
}

void Latents::scale_steps(double factor) {
  const at::NoGradGuard no_grad;
  for (Entry& entry : entries_) {
    entry.log_step.add_(std::log(factor) / kStepSpeed);
    entry.scale().mul_(factor).clamp_(1 / kLargestScale, 1 / kLeastScale);
  }
}

std::vector<at::Tensor> Latents::values() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.latent);
    result.push_back(entry.log_step);
  }
  return result;
}

std::vector<at::Tensor> Latents::gradients() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.latent_gradient);
    result.push_back(entry.step_gradient);
  }
  return result;
}

std::vector<std::string> Latents::value_names() const {
  std::vector<std::string> result;
  for (const Entry& entry : entries_) {
    result.push_back(entry.name + "#latent");
    result.push_back(entry.name + "#log_step");
  }
  return result;
}

std::vector<at::Tensor> Latents::scales() const {
  std::vector<at::Tensor> result;
  for (const Entry& entry : entries_) result.push_back(entry.scale());
  return result;
}

void Latents::choose(double lambda) {
  const at::NoGradGuard no_grad;
  IntegerEncoder encoder(CodecProfile::kSmall);
  for (Entry& entry : entries_) {
    const at::Tensor scaled = (entry.residual() * (1 / entry.step())).contiguous();
    entry.chosen =
        CodedValues{entry.grid,
                    encoder.quantise_and_add(entry.grid, span_of(scaled, 0, scaled.numel()), {},
                                             lambda, entry.classes()),
                    entry.step_index(),
                    {}};
  }
}

void Latents::quantise(double step, double evenness, Quantiser quantiser) {
  const at::NoGradGuard no_grad;
  struct Part {
    std::size_t entry;
    std::int64_t index;
    double error = 0;
  };
  std::vector<at::Tensor> sources(entries_.size());
  std::vector<std::optional<Trellis>> trellises(entries_.size());
  std::vector<Part> parts;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    Entry& entry = entries_[e];
    const int index = entry.step_index(step, evenness);
    // The same memory again: a size is found by trying several.
    std::vector<std::int32_t> integers;
    if (entry.chosen) integers = std::move(entry.chosen->integers);
    IntegerGrid grid = entry.grid;
    grid.dependent = quantiser == Quantiser::kTrellis;
    if (grid.dependent) {
      integers.resize(static_cast<std::size_t>(entry.latent.numel()));
      sources[e] = entry.residual();
      trellises[e].emplace(grid, span_of(sources[e], 0, entry.latent.numel()));
      for (std::int64_t i = 0; i < trellises[e]->parts(); ++i) parts.push_back({e, i});
    } else {
      integers = entry.nearest(step_size(index), std::move(integers));
    }
    entry.chosen = CodedValues{grid, std::move(integers), index, {}};
  }
  at::parallel_for(
      0, static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Part& part = parts[static_cast<std::size_t>(i)];
          CodedValues& chosen = *entries_[part.entry].chosen;
          part.error =
              trellises[part.entry]->choose(part.index, step_size(chosen.step), chosen.integers);
        }
      });
  for (Entry& entry : entries_) entry.error = 0;
  for (const Part& part : parts) entries_[part.entry].error += part.error;
}

double Latents::relative_error() const {
  const at::NoGradGuard no_grad;
  double error = 0, squares = 0;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const Entry& entry = entries_[e];
    squares += sum_of(entry.latent, [](double x) { return x * x; });
    if (entry.chosen && entry.chosen->grid.dependent) {
      error += entry.error;
      continue;
    }
    const CodedValues* values = entry.chosen ? &*entry.chosen : nullptr;
    std::optional<CodedValues> now;
    if (!values) values = &now.emplace(coded(e));
    const float step = step_size(values->step);
    const auto error_of = [&](std::span<const float> latent, std::size_t first) {
      std::vector<float> buffer;
      const std::span<const float> residual = entry.residual(
          static_cast<std::int64_t>(first), static_cast<std::int64_t>(latent.size()), buffer);
      double sum = 0;
      for (std::size_t i = 0; i < latent.size(); ++i) {
        const float stored = static_cast<float>(values->integers[first + i]) * step;
        const double off = static_cast<double>(stored) - static_cast<double>(residual[i]);
        sum += off * off;
      }
      return sum;
    };
    error += sum_pieces(entry.latent, error_of);
  }
  return squares > 0 ? error / squares : 0;
}

double Latents::expected_error(double step, double evenness) const {
  std::int64_t count = 0;
  for (const Entry& entry : entries_) count += entry.latent.numel();
  const std::int64_t longest = count > kAllSampled ? kSampled : kPiece;
  double error = 0, squares = 0;
  for (const Entry& entry : entries_) {
    const float size = step_size(entry.step_index(step, evenness)), inverse = 1 / size;
    const auto error_of = [&](std::span<const float> latent, std::size_t first) {
      std::vector<float> buffer;
      double sum = 0;
      for (const float x : entry.residual(static_cast<std::int64_t>(first),
                                          static_cast<std::int64_t>(latent.size()), buffer)) {
        const auto off = static_cast<double>(whole(x * inverse) * size - x);
        sum += off * off;
      }
      return sum;
    };
    const auto squares_of = [](std::span<const float> latent, std::size_t) {
      double sum = 0;
      for (const float x : latent) sum += static_cast<double>(x) * static_cast<double>(x);
      return sum;
    };
    error += sum_pieces(entry.latent, error_of, longest);
    squares += sum_pieces(entry.latent, squares_of, longest);
  }
  return squares > 0 ? error / squares : 0;
}

CodedValues Latents::coded(std::size_t index) const {
  const Entry& entry = entries_.at(index);
  if (entry.chosen) return *entry.chosen;
  return {entry.grid, entry.nearest(entry.step()), entry.step_index(), {}};
}

}  // namespace gbcompress
