#include "cuda/cuda_kernel.h"

#include <algorithm>
#include <list>
#include <mutex>

#include "cuda/job.h"
#include "cuda/staging.h"
#include "gbcompress/error.h"

namespace gbcompress::cuda {
namespace {

bool same(const CodeTable& a, const CodeTable& b) {
  return a.count == b.count && a.width == b.width && a.trained == b.trained && a.values == b.values;
}
bool same(const BankShape& a, const BankShape& b) {
  return a.generator == b.generator && a.tile_rows == b.tile_rows && a.tile_cols == b.tile_cols &&
         a.kernel == b.kernel && a.hidden == b.hidden && same(a.codes.rows, b.codes.rows) &&
         same(a.codes.cols, b.codes.cols) && same(a.codes.kernel, b.codes.kernel);
}
template <typename Tile>
bool same(const Tile& a, const Tile& b) {
  return a.data == b.data && a.row_stride == b.row_stride && a.col_stride == b.col_stride &&
         a.rows == b.rows && a.cols == b.cols && a.scale == b.scale;
}

/// Jobs of earlier calls, the latest first. A model has a few banks, and two directions each.
template <typename Tile>
class JobCache {
 public:
  /// @param check  called with each tile before a new job is made
  template <typename Check>
  const Job& get(const Device& device, const BankShape& shape, std::span<const Tile> tiles,
                 const Budget& budget, const Check& check) {
    const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const CachedJob& entry) {
      return same(entry.shape, shape) &&
             std::equal(tiles.begin(), tiles.end(), entry.tiles.begin(), entry.tiles.end(),
                        [](const Tile& a, const Tile& b) { return same(a, b); });
    });
    if (found != entries_.end()) {
      entries_.splice(entries_.begin(), entries_, found);
      return entries_.front().job;
    }
    for (const Tile& tile : tiles)
      if (tile.rows > 0 && tile.cols > 0) check(tile);
    entries_.push_front({shape, {tiles.begin(), tiles.end()}, Job(device, shape, tiles, budget)});
    if (entries_.size() > kMost) entries_.pop_back();
    return entries_.front().job;
  }
  void clear() { entries_.clear(); }

 private:
  static constexpr std::size_t kMost = 16;
  struct CachedJob {
    BankShape shape;
    std::vector<Tile> tiles;
    Job job;
  };
  std::list<CachedJob> entries_;
};

class CudaKernel final : public TileKernel {
 public:
  CudaKernel(const Module& module, const CudaOptions& options, const Budget& budget)
      : device_(module, options.device, options.stream), budget_(budget) {}
  ~CudaKernel() override {
    try {
      const Device::Use use(device_);
      targets_.clear();
      sources_.clear();
    } catch (const Error&) {
      // The GPU is lost, and its memory with it.
    }
  }
  std::string_view name() const noexcept override { return "cuda"; }

 private:
  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    run(shape, theta, tiles, {}, targets_);
  }
  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    run(shape, theta, tiles, grad, sources_);
  }

  template <typename Pointer>
  void run(const BankShape& shape, std::span<const float> theta,
           std::span<const TileMemory<Pointer>> tiles, std::span<float> grad,
           JobCache<TileMemory<Pointer>>& cache) const {
    if (tiles.empty()) return;
    const std::scoped_lock lock(mutex_);
    const Device::Use use(device_);
    const bool on_device = device_.holds(theta.data());
    if (!grad.empty()) expect(grad.data(), on_device);
    if (!on_device) {
      for (const auto& tile : tiles)
        if (tile.rows > 0 && tile.cols > 0) expect(tile.data, false);
      run_staged(device_, shape, theta, tiles, grad, budget_);
      return;
    }
    // Checking every tile takes longer than computing it; checked tiles are cached.
    cache
        .get(device_, shape, tiles, budget_,
             [&](const TileMemory<Pointer>& tile) { expect(tile.data, true); })
        .run(theta.data(), grad.data());
  }

  void expect(const void* memory, bool on_device) const {
    if (device_.holds(memory) != on_device)
      throw Error(Errc::kUsage,
                  "parameters, gradients and tiles of one call must lie all in host memory or all "
                  "on the GPU; move the model and its g-nets to the same device");
  }

  Device device_;
  Budget budget_;
  mutable std::mutex mutex_;
  mutable JobCache<TileTarget> targets_;
  mutable JobCache<TileSource> sources_;
};

}  // namespace

std::unique_ptr<TileKernel> make_kernel(const Module& module, const CudaOptions& options,
                                        const Budget& budget) {
  return std::make_unique<CudaKernel>(module, options, budget);
}

}  // namespace gbcompress::cuda
