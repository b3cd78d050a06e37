#include "gbcompress/strategy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "base/normal_inversion.h"
#include "base/random.h"

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

}  // namespace gbcompress
