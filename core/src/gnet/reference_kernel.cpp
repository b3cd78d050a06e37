#include "gnet/reference.h"

namespace gbcompress {
namespace {

class ReferenceKernel final : public TileKernel {
 public:
  std::string_view name() const noexcept override { return "reference"; }

 private:
  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    const auto layers = shape.layers();
    const std::int64_t parameters = shape.parameters();
    for (std::size_t t = 0; t < tiles.size(); ++t)
      reference::forward_tile(shape, layers,
                              theta.data() + static_cast<std::int64_t>(t) * parameters, tiles[t]);
  }

  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    const auto layers = shape.layers();
    const std::int64_t parameters = shape.parameters();
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const std::int64_t first = static_cast<std::int64_t>(t) * parameters;
      reference::backward_tile(shape, layers, theta.data() + first, tiles[t], grad.data() + first);
    }
  }
};

}  // namespace

std::unique_ptr<TileKernel> make_reference_kernel() { return std::make_unique<ReferenceKernel>(); }

}  // namespace gbcompress
