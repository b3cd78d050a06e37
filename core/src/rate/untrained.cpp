// Integers without training.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <array>
#include <cmath>

#include "artifact/integers/integers.h"
#include "gbcompress/error.h"
#include "rate/latents.h"
#include "rate/pieces.h"

namespace gbcompress {
namespace {

/// Step sizes of vectors over those of matrices, without training.
constexpr double kVectorStep = 0.125;
/// If there are more weights, a sample has the first ones of each piece.
constexpr std::int64_t kAllSampled = 1 << 20, kSampled = kPiece / 16;

}  // namespace

int Latents::LatentTensor::step_index(double size, double evenness) const {
  if (spread > 0) size *= std::pow(spread, evenness);
  if (grid.rows == 1) size *= kVectorStep;
  return nearest_step(static_cast<float>(size));
}

void Latents::quantize(double step, double evenness, Quantizer quantizer) {
  const at::NoGradGuard no_grad;
  struct Part {
    std::size_t entry;
    std::int64_t index;
    double error = 0;
  };
  std::vector<at::Tensor> sources(entries_.size());
  std::vector<std::optional<Trellis>> trellises(entries_.size());
  std::vector<Part> parts;
  std::vector<CodedValues> chosen(entries_.size());
  std::int64_t numbers = 0;  // beyond kAutoSmall a file has the profile lanes, and with wide rows
  bool lanes = false;
  for (const LatentTensor& entry : entries_) {
    numbers += entry.grid.size();
    lanes = lanes || !fits_small({&entry.grid, 1});
  }
  lanes = lanes || numbers > kAutoSmall;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    LatentTensor& entry = entries_[e];
    const int index = entry.step_index(step, evenness);
    entry.chosen.reset();
    std::vector<std::int32_t> integers;
    IntegerGrid grid = entry.grid;
    grid.dependent = quantizer == Quantizer::kTrellis;
    grid.lanes = grid.dependent && lanes;
    if (grid.dependent) {
      integers.resize(static_cast<std::size_t>(entry.latent.numel()));
      sources[e] = entry.host_latent();
      trellises[e].emplace(grid, numbers_of(sources[e], 0, entry.latent.numel()));
      for (std::int64_t i = 0; i < trellises[e]->parts(); ++i) parts.push_back({e, i});
    } else {
      integers = entry.nearest(std::array{step_size(index)}, std::move(integers));
    }
    chosen[e] = CodedValues{grid, std::move(integers), index, {}};
    entry.as_is = false;
  }
  at::parallel_for(
      0, static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          Part& part = parts[static_cast<std::size_t>(i)];
          CodedValues& values = chosen[part.entry];
          part.error =
              trellises[part.entry]->choose(part.index, step_size(values.step), values.integers);
        }
      });
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    entries_[e].chosen.emplace(std::move(chosen[e]));
    entries_[e].error = 0;
  }
  for (const Part& part : parts) entries_[part.entry].error += part.error;
}

double Latents::relative_error() const {
  const at::NoGradGuard no_grad;
  double error = 0, squares = 0;
  for (std::size_t e = 0; e < entries_.size(); ++e) {
    const LatentTensor& entry = entries_[e];
    const at::Tensor values = entry.host_latent();
    squares += sum_of(values, [](double x) { return x * x; });
    if (entry.chosen && entry.chosen->form().grid.dependent) {
      error += entry.error;
      continue;
    }
    const std::vector<float> floats = coded_floats(coded(e));
    const auto error_of = [&](std::span<const float> latent, std::size_t first) {
      double sum = 0;
      for (std::size_t i = 0; i < latent.size(); ++i) {
        const double off = static_cast<double>(floats[first + i]) - static_cast<double>(latent[i]);
        sum += off * off;
      }
      return sum;
    };
    error += sum_pieces(values, error_of);
  }
  return squares > 0 ? error / squares : 0;
}

double Latents::expected_error(double step, double evenness) const {
  std::int64_t count = 0;
  for (const LatentTensor& entry : entries_) count += entry.latent.numel();
  const std::int64_t longest = count > kAllSampled ? kSampled : kPiece;
  double error = 0, squares = 0;
  for (const LatentTensor& entry : entries_) {
    const at::Tensor values = entry.host_latent();
    const float size = step_size(entry.step_index(step, evenness)), inverse = 1 / size;
    const auto error_of = [&](std::span<const float> latent, std::size_t) {
      double sum = 0;
      for (const float x : latent) {
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
    error += sum_pieces(values, error_of, longest);
    squares += sum_pieces(values, squares_of, longest);
  }
  return squares > 0 ? error / squares : 0;
}

}  // namespace gbcompress
