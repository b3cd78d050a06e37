#include "cuda/staging.h"

#include <algorithm>

namespace gbcompress::cuda {
namespace {

template <typename Pointer>
std::int64_t weights_of(const TileMemory<Pointer>& tile, std::int64_t kernel) {
  return tile.rows * tile.cols * kernel;
}

/// visit(position in the tensor, position in the packed tile) for each run of kernel positions.
template <typename Pointer, typename Visit>
void for_runs(const TileMemory<Pointer>& tile, std::int64_t kernel, const Visit& visit) {
  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t j = 0; j < tile.cols; ++j)
      visit(tile.data + i * tile.row_stride + j * tile.col_stride, (i * tile.cols + j) * kernel);
}

/// Tiles that go to the device together: as many as the budget holds, at least one.
template <typename Pointer>
std::size_t part_end(const BankShape& shape, std::span<const TileMemory<Pointer>> tiles,
                     std::size_t first, std::int64_t budget) {
  std::int64_t floats = 0;
  std::size_t end = first;
  for (; end < tiles.size(); ++end) {
    floats += weights_of(tiles[end], shape.kernel) + shape.parameters();
    if (floats > budget && end > first) break;
  }
  return end;
}

template <typename Pointer>
void run_part(const Device& device, const BankShape& shape, std::span<const float> theta,
              std::span<const TileMemory<Pointer>> tiles, std::span<float> grad,
              const Budget& budget) {
  constexpr bool kBackward = std::is_same_v<Pointer, const float*>;
  std::int64_t weights = 0;
  for (const auto& tile : tiles) weights += weights_of(tile, shape.kernel);
  std::vector<float> host(static_cast<std::size_t>(weights));
  const auto for_tiles = [&](const auto& visit) {
    std::int64_t at = 0;
    for (const auto& tile : tiles) {
      visit(tile, at);
      at += weights_of(tile, shape.kernel);
    }
  };
  if constexpr (kBackward)
    for_tiles([&](const TileSource& tile, std::int64_t at) {
      for_runs(tile, shape.kernel, [&](const float* from, std::int64_t to) {
        std::copy_n(from, shape.kernel, host.begin() + at + to);
      });
    });

  DeviceArray<float> packed = kBackward ? DeviceArray<float>(device, std::span<const float>(host))
                                        : DeviceArray<float>(device, weights);
  std::vector<TileMemory<Pointer>> there;
  for_tiles([&](const TileMemory<Pointer>& tile, std::int64_t at) {
    there.push_back({packed.data() + at, tile.cols * shape.kernel, shape.kernel, tile.rows,
                     tile.cols, tile.scale});
  });
  const DeviceArray<float> theta_there(device, theta);
  const DeviceArray<float> grad_there(device, std::span<const float>(grad));
  const Job job(device, shape, std::span<const TileMemory<Pointer>>(there), budget);
  job.run(theta_there.data(), grad_there.data());
  if (weights == 0) return;
  if constexpr (kBackward) {
    device.copy(grad.data(), grad_there.data(), static_cast<std::int64_t>(grad.size_bytes()));
    device.finish();
  } else {
    device.copy(host.data(), packed.data(), weights * static_cast<std::int64_t>(sizeof(float)));
    device.finish();
    for_tiles([&](const TileTarget& tile, std::int64_t at) {
      for_runs(tile, shape.kernel, [&](float* to, std::int64_t from) {
        std::copy_n(host.begin() + at + from, shape.kernel, to);
      });
    });
  }
}

template <typename Pointer>
void run_all(const Device& device, const BankShape& shape, std::span<const float> theta,
             std::span<const TileMemory<Pointer>> tiles, std::span<float> grad,
             const Budget& budget) {
  const auto parameters = static_cast<std::size_t>(shape.parameters());
  for (std::size_t first = 0; first < tiles.size();) {
    const std::size_t end = part_end(shape, tiles, first, budget.staging);
    const std::size_t at = first * parameters, count = (end - first) * parameters;
    run_part(device, shape, theta.subspan(at, count), tiles.subspan(first, end - first),
             grad.empty() ? grad : grad.subspan(at, count), budget);
    first = end;
  }
}

}  // namespace

void run_staged(const Device& device, const BankShape& shape, std::span<const float> theta,
                std::span<const TileTarget> tiles, std::span<float> grad, const Budget& budget) {
  run_all(device, shape, theta, tiles, grad, budget);
}
void run_staged(const Device& device, const BankShape& shape, std::span<const float> theta,
                std::span<const TileSource> tiles, std::span<float> grad, const Budget& budget) {
  run_all(device, shape, theta, tiles, grad, budget);
}

}  // namespace gbcompress::cuda
