#pragma once
/// Random tiles of many shapes, for comparing a kernel with the reference kernel.

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "base/random.h"
#include "gnet/tile_kernel.h"

namespace gbcompress {

/// One specification with its g-nets, a gradient, and how the tensor is laid out.
struct KernelCase {
  std::string name;
  GNetSpec spec;

  friend void PrintTo(const KernelCase& c, std::ostream* out) { *out << c.name; }
};

inline KernelCase kernel_case(std::string name, std::vector<std::int64_t> shape, MatrixView view,
                              std::int64_t tile_rows, std::int64_t tile_cols,
                              std::vector<std::int64_t> hidden,
                              Encoding row_code = Encoding::kBinary) {
  GNetSpec spec;
  spec.type_id = "test";
  spec.kernel_codes.assign(matrix_sides(shape, view).kernel_dims.size(), Encoding::kOneHot);
  spec.shape = std::move(shape);
  spec.view = view;
  spec.tile_rows = tile_rows;
  spec.tile_cols = tile_cols;
  spec.hidden = std::move(hidden);
  spec.row_code = row_code;
  spec.output_scale = 0.37f;
  return {std::move(name), std::move(spec)};
}

/// The same with other codes of rows and columns.
inline KernelCase coded(KernelCase c, AxisCode row_code, AxisCode col_code) {
  c.spec.row_code = std::move(row_code);
  c.spec.col_code = std::move(col_code);
  return c;
}
/// The same tiles from another generator.
inline KernelCase generated_by(KernelCase c, Generator generator, std::int64_t rank = 0) {
  c.spec.generator = generator;
  c.spec.rank = rank;
  if (is_product(generator)) c.spec.hidden.clear();
  return c;
}

/// Odd sizes, 1-wide tiles, cropped edges, kernels, transposed and split tensors, tiles smaller and
/// larger than a vector, 1 to 3 hidden layers, every encoding, every generator.
inline std::vector<KernelCase> kernel_cases() {
  const MatrixView plain, transposed{.row_dim = 1, .col_dim = 0};
  const AxisCode latent(Encoding::kLatent, 3), fourier(Encoding::kFourier, 2);
  constexpr Generator stochastic = Generator::kStochastic, low_rank = Generator::kLowRank,
                      xox = Generator::kXox;
  return {
      kernel_case("linear", {30, 40}, plain, 10, 20, {32}),
      kernel_case("cropped", {23, 37}, plain, 10, 16, {12}, Encoding::kGray),
      kernel_case("single", {1, 1}, plain, 1, 1, {3}),
      kernel_case("one_row", {1, 130}, plain, 1, 50, {7}),
      kernel_case("one_column", {130, 1}, plain, 50, 1, {5}),
      kernel_case("tiny_tiles", {7, 9}, plain, 2, 3, {1}),
      kernel_case("wide_hidden", {20, 20}, plain, 20, 20, {70}),
      kernel_case("one_hot_rows", {12, 18}, plain, 6, 9, {16}, Encoding::kOneHot),
      kernel_case("tall_tile", {300, 20}, plain, 300, 20, {9}),
      kernel_case("transposed", {40, 30}, transposed, 16, 20, {20}),
      kernel_case("vector", {77}, {.row_dim = 0, .col_dim = -1}, 20, 1, {6}),
      kernel_case("splits", {36, 10}, {.row_dim = 0, .col_dim = 1, .row_splits = 3}, 5, 10, {8}),
      kernel_case("conv", {11, 7, 3, 3}, plain, 4, 5, {13}),
      kernel_case("conv1d", {9, 4, 5}, plain, 9, 3, {17}),
      kernel_case("conv3d", {5, 3, 2, 3, 2}, plain, 3, 2, {6}),
      kernel_case("conv_transposed", {7, 11, 3, 3}, transposed, 4, 5, {10}),
      kernel_case("deep", {30, 33}, plain, 15, 33, {30, 10}),
      kernel_case("deeper", {21, 300}, plain, 21, 300, {9, 17, 5}),
      kernel_case("deep_conv", {6, 5, 3, 3}, plain, 4, 3, {8, 6}),
      kernel_case("deep_transposed", {20, 14}, transposed, 9, 8, {7, 3}),
      coded(kernel_case("fourier", {30, 40}, plain, 11, 20, {9}), fourier, fourier),
      coded(kernel_case("pixel", {30, 28}, plain, 7, 28, {9}), Encoding::kBinary,
            {Encoding::kPixel, 3, {4, 7}}),
      coded(kernel_case("latent_rows", {300, 21}, plain, 150, 10, {20}), latent, Encoding::kGray),
      coded(kernel_case("latent_both", {23, 37}, plain, 10, 16, {12}), latent, latent),
      coded(kernel_case("latent_transposed", {40, 30}, transposed, 16, 20, {20}), latent, fourier),
      coded(kernel_case("latent_conv", {11, 7, 3, 3}, plain, 4, 5, {13}), fourier, latent),
      coded(kernel_case("latent_deep", {140, 14, 3}, plain, 140, 8, {7, 3}), latent, latent),
      generated_by(kernel_case("stochastic", {30, 40}, plain, 12, 20, {32}), stochastic),
      generated_by(kernel_case("stochastic_tall", {300, 20}, plain, 300, 20, {9}), stochastic),
      generated_by(kernel_case("stochastic_deep", {30, 33}, plain, 15, 33, {30, 10}), stochastic),
      generated_by(kernel_case("stochastic_conv", {11, 7, 3, 3}, plain, 4, 5, {13}), stochastic),
      generated_by(kernel_case("stochastic_transposed", {7, 11, 3, 3}, transposed, 4, 5, {10}),
                   stochastic),
      generated_by(coded(kernel_case("stochastic_latent", {40, 30}, transposed, 16, 20, {20}),
                         latent, latent),
                   stochastic),
      generated_by(kernel_case("low_rank", {30, 40}, plain, 12, 17, {}), low_rank, 5),
      generated_by(kernel_case("low_rank_one", {1, 1}, plain, 1, 1, {}), low_rank, 1),
      generated_by(kernel_case("low_rank_tall", {300, 21}, plain, 300, 21, {}), low_rank, 20),
      generated_by(kernel_case("low_rank_conv", {11, 7, 3, 3}, plain, 4, 5, {}), low_rank, 3),
      generated_by(kernel_case("low_rank_transposed", {7, 11, 3, 3}, transposed, 4, 5, {}),
                   low_rank, 4),
      generated_by(kernel_case("xox", {30, 40}, plain, 12, 17, {}), xox, 6),
      generated_by(kernel_case("xox_tall", {300, 21}, plain, 300, 21, {}), xox, 17),
      generated_by(kernel_case("xox_conv", {9, 4, 5}, transposed, 4, 3, {}), xox, 2),
  };
}

/// The numbers of a case: theta [tiles, parameters], and a tensor of gradients.
struct KernelNumbers {
  BankShape shape;
  TileGrid grid;
  std::vector<float> theta, gradient;
  RandomStream stream{3, "noise of the kernel cases"};

  explicit KernelNumbers(const GNetSpec& spec, unsigned seed = 1)
      : shape(bank_shape(spec)), grid(spec.grid()) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 0.3f);
    theta.resize(static_cast<std::size_t>(grid.tiles() * shape.parameters()));
    gradient.resize(static_cast<std::size_t>(grid.elements()));
    for (float& x : theta) x = normal(random);
    for (float& x : gradient) x = normal(random);
  }
  template <typename Pointer>
  std::vector<TileMemory<Pointer>> tiles(Pointer data, float scale) const {
    std::vector<TileMemory<Pointer>> result;
    for (std::int64_t t = 0; t < grid.tiles(); ++t) {
      const TileExtent e = grid.extent(t);
      TileNoise noise;
      if (shape.generator == Generator::kStochastic)
        noise = {&stream, static_cast<std::uint64_t>(t * grid.positions())};
      result.push_back({data + e.offset, e.row_stride, e.col_stride, e.rows, e.cols, scale, noise});
    }
    return result;
  }
};

/// Largest difference over the largest magnitude.
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, magnitude = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::fabs(static_cast<double>(a[i]) - b[i]));
    magnitude = std::max(magnitude, std::fabs(static_cast<double>(b[i])));
  }
  return magnitude > 0 ? difference / magnitude : difference;
}

}  // namespace gbcompress
