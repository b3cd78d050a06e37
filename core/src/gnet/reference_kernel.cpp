#include "gnet/reference.h"
#include "gnet/reference_product.h"

namespace gbcompress {
namespace {

class ReferenceKernel final : public TileKernel {
 public:
  std::string_view name() const noexcept override { return "reference"; }

 private:
  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    const bool product = is_product(shape.generator);
    const auto layers = product ? std::vector<BankShape::Layer>() : shape.layers();
    const std::int64_t parameters = shape.parameters();
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const float* own = theta.data() + static_cast<std::int64_t>(t) * parameters;
      if (product)
        reference::forward_product(shape, own, tiles[t]);
      else
        reference::forward_tile(shape, layers, own, tiles[t]);
    }
  }

#ifdef GBC_FREESTANDING  // decoders train nothing
  void backward_impl(const BankShape&, std::span<const float>, std::span<const TileSource>,
                     std::span<float>) const override {
    std::abort();
  }
#else
  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    const bool product = is_product(shape.generator);
    const auto layers = product ? std::vector<BankShape::Layer>() : shape.layers();
    const std::int64_t parameters = shape.parameters();
    for (std::size_t t = 0; t < tiles.size(); ++t) {
      const std::int64_t first = static_cast<std::int64_t>(t) * parameters;
      if (product)
        reference::backward_product(shape, theta.data() + first, tiles[t], grad.data() + first);
      else
        reference::backward_tile(shape, layers, theta.data() + first, tiles[t],
                                 grad.data() + first);
    }
  }
#endif
};

}  // namespace

std::unique_ptr<TileKernel> make_reference_kernel() { return std::make_unique<ReferenceKernel>(); }

}  // namespace gbcompress
