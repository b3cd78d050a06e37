#include "gbcompress/strategy.h"

#include <ATen/ATen.h>

#include "base/random.h"

namespace gbcompress {

at::Tensor normal_noise(const NoiseKey& key, std::span<const std::int64_t> samples,
                        const std::vector<std::int64_t>& shape) {
  const RandomStream stream(key.seed, key.purpose, key.layer, key.step);
  std::vector<std::int64_t> sizes = {static_cast<std::int64_t>(samples.size())};
  sizes.insert(sizes.end(), shape.begin(), shape.end());
  at::Tensor result = at::empty(sizes, at::kFloat);
  const auto width = static_cast<std::size_t>(c10::multiply_integers(shape));
  std::span<float> rest(result.data_ptr<float>(), samples.size() * width);
  for (const std::int64_t sample : samples) {
    stream.fill_normal(rest.first(width), 0, 1, static_cast<std::uint64_t>(sample) * width);
    rest = rest.subspan(width);
  }
  return result;
}

at::Tensor normal_noise(const NoiseKey& key, const std::vector<std::int64_t>& shape) {
  const std::int64_t first = 0;
  return normal_noise(key, {&first, 1}, shape).squeeze(0);
}

}  // namespace gbcompress
