#include <utility>

#include "gnet/threaded_kernels.h"

namespace gbcompress {
namespace {

class ExactKernel final : public TileKernel {
 public:
  explicit ExactKernel(RangeRunner run) : run_(std::move(run)) {}
  std::string_view name() const noexcept override { return one_->name(); }

 private:
  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    const auto parameters = static_cast<std::size_t>(shape.parameters());
    run_(static_cast<std::int64_t>(tiles.size()), 1, [&](std::int64_t begin, std::int64_t end) {
      const auto first = static_cast<std::size_t>(begin);
      const auto count = static_cast<std::size_t>(end - begin);
      one_->forward(shape, theta.subspan(first * parameters, count * parameters),
                    tiles.subspan(first, count));
    });
  }
  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    one_->backward(shape, theta, tiles, grad);
  }

  RangeRunner run_;
  std::unique_ptr<TileKernel> one_ = make_reference_kernel();
};

}  // namespace

std::unique_ptr<TileKernel> make_exact_kernel_with(RangeRunner run) {
  return std::make_unique<ExactKernel>(std::move(run));
}

}  // namespace gbcompress
