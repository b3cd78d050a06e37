#include "gbcompress/noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <utility>

#include "base/normal_inversion.h"
#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {

at::Tensor normal_noise(const NoiseKey& key, std::span<const std::int64_t> samples,
                        const std::vector<std::int64_t>& shape) {
  const RandomStream stream(key.seed, key.purpose, key.layer, key.step);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(samples.size())};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  at::Tensor result = at::empty(sizes, at::kFloat);
  const auto width = static_cast<std::size_t>(c10::multiply_integers(shape));
  const std::span<float> all(result.data_ptr<float>(), samples.size() * width);
  constexpr std::size_t kThreadNumbers = std::size_t{1} << 15;
  const auto rows = static_cast<std::int64_t>(kThreadNumbers / std::max<std::size_t>(width, 1) + 1);
  at::parallel_for(
      0, static_cast<std::int64_t>(samples.size()), rows,
      [&](std::int64_t begin, std::int64_t end) {
        for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
          fill_normal_by_inversion(stream, static_cast<std::uint64_t>(samples[i]) * width,
                                   all.subspan(i * width, width));
      });
  return result;
}

at::Tensor normal_noise(const NoiseKey& key, const std::vector<std::int64_t>& shape) {
  const std::int64_t first = 0;
  return normal_noise(key, {&first, 1}, shape).squeeze(0);
}

namespace {

thread_local const NoiseScope* innermost = nullptr;

}  // namespace

NoiseScope::NoiseScope(std::uint64_t seed, std::int64_t step, std::span<const std::int64_t> samples)
    : seed_(seed), step_(step), samples_(samples), before_(std::exchange(innermost, this)) {}
NoiseScope::~NoiseScope() { innermost = before_; }
const NoiseScope* NoiseScope::current() noexcept { return innermost; }

at::Tensor keyed_dropout(const at::Tensor& x, double p, const std::string& layer, bool training) {
  if (!(p >= 0 && p < 1))
    throw Error(Errc::kUsage, "dropout must be at least 0 and below 1, not " + std::to_string(p));
  if (!training || p == 0) return x;
  const NoiseScope* const scope = NoiseScope::current();
  if (!scope) return at::dropout(x, p, true);
  if (x.dim() < 1 || x.size(0) != static_cast<std::int64_t>(scope->samples().size()))
    throw Error(Errc::kShapeMismatch, "dropout of " + printable(layer) + " has " +
                                          std::to_string(x.dim() < 1 ? 0 : x.size(0)) +
                                          " rows for " + std::to_string(scope->samples().size()) +
                                          " samples");
  const at::Tensor noise =
      normal_noise({scope->seed(), "dropout", layer, static_cast<std::uint64_t>(scope->step())},
                   scope->samples(), x.sizes().slice(1).vec());
  // A part p of normal numbers lies below this.
  const double edge = at::special_ndtri(at::full({}, p, at::kDouble)).item<double>();
  return x * (noise.ge(edge).to(x.options()) / (1 - p));
}

}  // namespace gbcompress
