#include "train/augment.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "gbcompress/error.h"

namespace gbcompress {

at::Tensor augmented(const at::Tensor& given, const std::vector<std::int64_t>& indices,
                     std::int64_t shift, bool flip, const RandomStream& random) {
  const at::Tensor images = given.to(at::kCPU);
  if (images.dim() != 4 || images.scalar_type() != at::kFloat || !images.is_contiguous() ||
      images.size(0) != static_cast<std::int64_t>(indices.size()))
    throw Error(Errc::kUsage,
                "train.shift and train.flip need images [channels, height, width]; leave them out "
                "for other data");
  const std::int64_t planes = images.size(1), height = images.size(2), width = images.size(3);
  at::Tensor result = at::empty_like(images);
  const float* from = images.data_ptr<float>();
  float* to = result.data_ptr<float>();
  const std::int64_t size = planes * height * width;
  at::parallel_for(0, images.size(0), 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> column(static_cast<std::size_t>(width));
    for (std::int64_t i = begin; i < end; ++i) {
      const auto at = 3 * static_cast<std::uint64_t>(indices[static_cast<std::size_t>(i)]);
      const auto move = [&](std::uint64_t which) {
        return static_cast<std::int64_t>(random.bits(at + which) % (2 * shift + 1)) - shift;
      };
      const std::int64_t down = move(0), right = move(1);
      const bool turned = flip && random.bits(at + 2) % 2 == 1;
      for (std::int64_t x = 0; x < width; ++x) {
        const std::int64_t source = std::clamp<std::int64_t>(x + right, 0, width - 1);
        column[static_cast<std::size_t>(x)] = turned ? width - 1 - source : source;
      }
      for (std::int64_t row = 0; row < planes * height; ++row) {
        const std::int64_t plane = row / height;
        const std::int64_t y = std::clamp<std::int64_t>(row % height + down, 0, height - 1);
        const float* line = from + i * size + (plane * height + y) * width;
        float* out = to + i * size + row * width;
        for (std::int64_t x = 0; x < width; ++x) out[x] = line[column[static_cast<std::size_t>(x)]];
      }
    }
  });
  return result.to(given.device());
}

}  // namespace gbcompress
