#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "gbcompress/tile_kernel.h"

namespace gbcompress {
namespace {

/// Hidden activations of one chunk of tiles, in floats: 16 MiB.
constexpr std::int64_t kChunkFloats = std::int64_t{1} << 22;

at::Tensor as_tensor(const CodeTable& table) {
  return at::from_blob(const_cast<float*>(table.values.data()), {1, table.count, table.width},
                       at::kFloat);
}

/// The g-nets of a chunk as batched products: theta [tiles, parameters] -> [tiles, positions].
at::Tensor run(const BankShape& shape, const at::Tensor& theta) {
  const auto layers = shape.layers();
  const std::int64_t tiles = theta.size(0);
  const auto weight = [&](std::size_t l) {
    const auto& layer = layers[l];
    return theta.narrow(1, layer.weight, layer.outputs * layer.inputs)
        .view({tiles, layer.outputs, layer.inputs});
  };
  const auto bias = [&](std::size_t l) {
    return theta.narrow(1, layers[l].bias, layers[l].outputs).view({tiles, 1, layers[l].outputs});
  };
  // The first layer is a sum of one term an axis, because a position's input is the concatenation
  // of its axes' codes.
  const at::Tensor first = weight(0).transpose(1, 2);  // [tiles, inputs, hidden]
  const TileCodes& codes = shape.codes;
  const std::int64_t width = layers[0].outputs;
  std::int64_t used = 0;
  const auto axis = [&](const CodeTable& table) {
    const at::Tensor part = first.narrow(1, used, table.width);
    used += table.width;
    return at::matmul(as_tensor(table), part);  // [tiles, count, hidden]
  };
  // One statement each: axis() counts the inputs used, and operands of + have no fixed order.
  const at::Tensor rows = axis(codes.rows) + bias(0);
  const at::Tensor cols = axis(codes.cols);
  at::Tensor hidden = rows.view({tiles, shape.tile_rows, 1, 1, width}) +
                      cols.view({tiles, 1, shape.tile_cols, 1, width});
  if (codes.kernel.width > 0)
    hidden = hidden + axis(codes.kernel).view({tiles, 1, 1, shape.kernel, width});
  hidden = hidden.view({tiles, shape.positions(), width});
  for (std::size_t l = 1; l < layers.size(); ++l)
    hidden = at::matmul(hidden.relu(), weight(l).transpose(1, 2)) + bias(l);
  return hidden.squeeze(2);
}

class BatchedKernel final : public TileKernel {
 public:
  std::string_view name() const noexcept override { return "batched"; }

 private:
  static std::int64_t chunk_of(const BankShape& shape) {
    const std::int64_t widest = *std::max_element(shape.hidden.begin(), shape.hidden.end());
    return std::max<std::int64_t>(1, kChunkFloats / std::max<std::int64_t>(
                                         1, shape.positions() * widest));
  }

  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    const at::NoGradGuard no_grad;
    const std::int64_t parameters = shape.parameters(), chunk = chunk_of(shape);
    const auto count = static_cast<std::int64_t>(tiles.size());
    for (std::int64_t begin = 0; begin < count; begin += chunk) {
      const std::int64_t n = std::min(chunk, count - begin);
      const at::Tensor out =
          run(shape, at::from_blob(const_cast<float*>(theta.data()) + begin * parameters,
                                   {n, parameters}, at::kFloat))
              .contiguous();
      const float* values = out.data_ptr<float>();
      for (std::int64_t t = 0; t < n; ++t, values += shape.positions()) {
        const TileTarget& tile = tiles[static_cast<std::size_t>(begin + t)];
        for (std::int64_t i = 0; i < tile.rows; ++i)
          for (std::int64_t j = 0; j < tile.cols; ++j)
            for (std::int64_t k = 0; k < shape.kernel; ++k)
              tile.data[i * tile.row_stride + j * tile.col_stride + k] =
                  values[(i * shape.tile_cols + j) * shape.kernel + k] * tile.scale;
      }
    }
  }

  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    const at::AutoGradMode with_grad(true);
    const std::int64_t parameters = shape.parameters(), chunk = chunk_of(shape);
    const auto count = static_cast<std::int64_t>(tiles.size());
    for (std::int64_t begin = 0; begin < count; begin += chunk) {
      const std::int64_t n = std::min(chunk, count - begin);
      at::Tensor seed = at::zeros({n, shape.positions()}, at::kFloat);
      float* values = seed.data_ptr<float>();
      for (std::int64_t t = 0; t < n; ++t, values += shape.positions()) {
        const TileSource& tile = tiles[static_cast<std::size_t>(begin + t)];
        for (std::int64_t i = 0; i < tile.rows; ++i)
          for (std::int64_t j = 0; j < tile.cols; ++j)
            for (std::int64_t k = 0; k < shape.kernel; ++k)
              values[(i * shape.tile_cols + j) * shape.kernel + k] =
                  tile.data[i * tile.row_stride + j * tile.col_stride + k] * tile.scale;
      }
      at::Tensor leaf = at::from_blob(const_cast<float*>(theta.data()) + begin * parameters,
                                      {n, parameters}, at::kFloat)
                            .clone()
                            .requires_grad_();
      const at::Tensor back = torch::autograd::grad({run(shape, leaf)}, {leaf}, {seed})[0];
      const at::NoGradGuard no_grad;
      at::from_blob(grad.data() + begin * parameters, {n, parameters}, at::kFloat).add_(back);
    }
  }
};

}  // namespace

std::unique_ptr<TileKernel> make_batched_kernel() { return std::make_unique<BatchedKernel>(); }

}  // namespace gbcompress
