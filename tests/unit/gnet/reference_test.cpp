#include "gnet/reference.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Problem {
  BankShape shape;
  std::int64_t rows, cols;  // may be cropped
  TileNoise noise;
};

const RandomStream& noise_stream() {
  static const RandomStream stream(7, "noise of the test");
  return stream;
}

Problem random_problem(std::uint64_t seed) {
  RandomStream random(seed, "reference test");
  std::uint64_t index = 0;
  const auto roll = [&](std::int64_t low, std::int64_t high) {
    return low + random.bits(index++) % (high - low + 1);
  };
  GNetSpec spec;
  spec.tile_rows = seed % 5 == 1 ? 1 : roll(1, 6);
  spec.tile_cols = seed % 5 == 2 ? 1 : roll(1, 40);
  spec.shape = {spec.tile_rows, spec.tile_cols};
  for (auto d = roll(0, 2); d > 0; --d) spec.shape.push_back(roll(1, 3));
  const auto code = [&](std::int64_t n, std::int64_t kinds) -> AxisCode {
    const auto kind = static_cast<Encoding>(roll(0, kinds));
    if (kind < Encoding::kFourier) return kind;
    if (kind != Encoding::kPixel) return {kind, roll(1, 3)};
    const std::int64_t side = n % 3 == 0 ? 3 : 1;
    return {kind, roll(1, 3), {side, n / side}};
  };
  spec.row_code = code(spec.tile_rows, 5);
  spec.col_code = code(spec.tile_cols, 5);
  for (std::size_t d = 2; d < spec.shape.size(); ++d)
    spec.kernel_codes.push_back(code(spec.shape[d], 4));
  spec.hidden.clear();
  for (int layer = seed % 2 ? 3 : 1; layer > 0; --layer) spec.hidden.push_back(roll(1, 7));
  Problem p{{}, roll(1, spec.tile_rows), roll(1, spec.tile_cols), {}};
  if (seed % 3 == 0) {
    spec.generator = Generator::kStochastic;
    if (seed % 6 == 0) p.noise = {&noise_stream(), seed * 1000};
  }
  p.shape = bank_shape(spec);
  return p;
}

std::vector<double> random_theta(const BankShape& shape, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(shape.parameters()));
  RandomStream(seed, "theta").fill_normal(values, 0.05f, 0.5f);
  return {values.begin(), values.end()};
}

/// Code of one position: from the table, or this g-net's own.
template <typename T>
T code_at(const CodeTable& table, const T* latents, std::int64_t n, std::int64_t b) {
  return table.trained ? latents[n * table.width + b] : T(table.values[n * table.width + b]);
}

/// A g-net as anybody would write it, without splitting the first layer by axis: all its outputs.
template <typename T>
std::vector<T> plain_gnet(const BankShape& shape, const T* theta, std::int64_t i, std::int64_t j,
                          std::int64_t k) {
  std::vector<T> x;
  const std::int64_t latents =
      shape.parameters() -
      (shape.codes.rows.trained ? shape.tile_rows * shape.codes.rows.width : 0) -
      (shape.codes.cols.trained ? shape.tile_cols * shape.codes.cols.width : 0);
  const T* own = theta + latents;
  const auto add = [&](const CodeTable& table, std::int64_t n) {
    for (std::int64_t b = 0; b < table.width; ++b) x.push_back(code_at(table, own, n, b));
    if (table.trained) own += table.count * table.width;
  };
  add(shape.codes.rows, i);
  add(shape.codes.cols, j);
  add(shape.codes.kernel, k);
  for (std::size_t n = 0; n <= shape.hidden.size(); ++n) {
    const bool last = n == shape.hidden.size();
    const std::int64_t outputs =
        last ? (shape.generator == Generator::kStochastic ? 2 : 1) : shape.hidden[n];
    const T* bias = theta + static_cast<std::int64_t>(x.size()) * outputs;
    std::vector<T> y;
    for (std::int64_t o = 0; o < outputs; ++o) {
      T sum = bias[o];
      for (std::size_t h = 0; h < x.size(); ++h) sum += *theta++ * x[h];
      y.push_back(last ? sum : std::max(sum, T(0)));
    }
    theta += outputs;
    x = y;
  }
  return x;
}

template <typename T>
std::vector<T> forward(const Problem& p, const std::vector<T>& theta, float scale = 0.5f) {
  std::vector<T> out(static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
  reference::forward_tile<T>(p.shape, p.shape.layers(), theta.data(),
                             {.data = out.data(),
                              .row_stride = p.cols * p.shape.kernel,
                              .col_stride = p.shape.kernel,
                              .rows = p.rows,
                              .cols = p.cols,
                              .scale = scale,
                              .noise = p.noise});
  return out;
}

TEST(Reference, EqualsAGNetWithoutFactorisation) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = random_problem(seed);
    const auto theta = random_theta(p.shape, seed);
    const auto out = forward(p, theta);
    std::size_t n = 0;
    for (std::int64_t i = 0; i < p.rows; ++i)
      for (std::int64_t j = 0; j < p.cols; ++j)
        for (std::int64_t k = 0; k < p.shape.kernel; ++k) {
          const auto outputs = plain_gnet(p.shape, theta.data(), i, j, k);
          double value = outputs[0];
          const std::int64_t at = (i * p.shape.tile_cols + j) * p.shape.kernel + k;
          if (p.noise.stream)
            value += std::exp(outputs[1]) *
                     noise_stream().normal(p.noise.first + static_cast<std::uint64_t>(at));
          ASSERT_NEAR(out[n++], 0.5 * value, 1e-12 * std::max(1.0, std::fabs(value)));
        }
  }
}

/// The documented order of float arithmetic, one position at a time.
float exact_gnet(const BankShape& shape, const float* theta, std::int64_t i, std::int64_t j,
                 std::int64_t k, float scale) {
  const auto layers = shape.layers();
  const auto& codes = shape.codes;
  std::vector<float> x;
  for (std::int64_t h = 0; h < layers[0].outputs; ++h) {
    const float* w = theta + h * layers[0].inputs;
    volatile float a = theta[layers[0].bias + h], b = 0, c = 0;
    const auto dot = [&](volatile float& sum, const CodeTable& table, std::int64_t latents,
                         std::int64_t n) {
      for (std::int64_t e = 0; e < table.width; ++e) {
        volatile float product = code_at(table, theta + latents, n, e) * *w++;
        sum = sum + product;
      }
    };
    dot(a, codes.rows, codes.rows.trained ? shape.row_latents() : 0, i);
    dot(b, codes.cols, codes.cols.trained ? shape.col_latents() : 0, j);
    dot(c, codes.kernel, 0, k);
    volatile float pre = a + b;
    if (codes.kernel.width > 0) pre = pre + c;
    x.push_back(pre > 0 ? pre : 0.0f);
  }
  for (std::size_t n = 1; n < layers.size(); ++n) {
    std::vector<float> y;
    for (std::int64_t o = 0; o < layers[n].outputs; ++o) {
      volatile float sum = theta[layers[n].bias + o];
      for (std::int64_t h = 0; h < layers[n].inputs; ++h) {
        volatile float product = theta[layers[n].weight + o * layers[n].inputs + h] * x[h];
        sum = sum + product;
      }
      y.push_back(n + 1 < layers.size() ? (sum > 0 ? sum : 0.0f) : sum);
    }
    x = y;
  }
  return x[0] * scale;
}

TEST(Reference, FloatArithmeticKeepsItsDocumentedOrderBitForBit) {
  const auto kernel = make_reference_kernel();
  EXPECT_EQ(kernel->name(), "reference");
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = random_problem(seed);
    const auto wide = random_theta(p.shape, seed);
    const std::vector<float> theta(wide.begin(), wide.end());
    // One float before, after and between what is written, to see that nothing else is touched.
    const std::int64_t col_stride = p.shape.kernel + 1, row_stride = p.cols * col_stride + 2;
    std::vector<float> out(static_cast<std::size_t>(p.rows * row_stride + 2), -77.0f);
    const TileTarget tile{out.data() + 1, row_stride, col_stride, p.rows, p.cols, 0.3f};
    kernel->forward(p.shape, theta, std::span(&tile, 1));
    std::size_t touched = 0;
    for (float v : out) touched += v != -77.0f;
    EXPECT_EQ(touched, static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
    for (std::int64_t i = 0; i < p.rows; ++i)
      for (std::int64_t j = 0; j < p.cols; ++j)
        for (std::int64_t k = 0; k < p.shape.kernel; ++k) {
          const float got = out[1 + i * row_stride + j * col_stride + k];
          const float want = exact_gnet(p.shape, theta.data(), i, j, k, 0.3f);
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got), std::bit_cast<std::uint32_t>(want));
        }
  }
}

TEST(Reference, ReluOfNanAndOfZeroIsPositiveZero) {
  EXPECT_EQ(std::signbit(reference::relu(-0.0f)), false);
  EXPECT_EQ(reference::relu(std::nanf("")), 0.0f);
  EXPECT_EQ(reference::relu(-1.0f), 0.0f);
  EXPECT_EQ(reference::relu(2.0f), 2.0f);
}

/// How far `grad` is from central differences of `loss` by `theta`, over the size of those.
template <typename Loss>
double distance_to_differences(std::vector<double>& theta, const std::vector<double>& grad,
                               const Loss& loss) {
  const double step = 1e-6;
  double error = 0, size = 0;
  for (std::size_t n = 0; n < theta.size(); ++n) {
    const double kept = theta[n];
    theta[n] = kept + step;
    const double up = loss();
    theta[n] = kept - step;
    const double down = loss();
    theta[n] = kept;
    const double numeric = (up - down) / (2 * step);
    error += std::pow(grad[n] - numeric, 2);
    size += numeric * numeric;
  }
  EXPECT_GT(size, 0);
  return std::sqrt(error / size);
}

/// Gradient by central differences of the double instantiation. Positions whose ReLU switches
/// within the step would spoil the comparison; the step is small and the draw fixed, so none does.
TEST(Reference, BackwardMatchesFiniteDifferences) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Problem p = random_problem(seed);
    auto theta = random_theta(p.shape, seed);
    std::vector<float> cotangent(static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
    RandomStream(seed, "cotangent").fill_normal(cotangent, 0, 1);
    const std::vector<double> dw(cotangent.begin(), cotangent.end());
    std::vector<double> grad(theta.size(), 1.0);  // gradients are added to what is there
    reference::backward_tile<double>(p.shape, p.shape.layers(), theta.data(),
                                     {.data = dw.data(),
                                      .row_stride = p.cols * p.shape.kernel,
                                      .col_stride = p.shape.kernel,
                                      .rows = p.rows,
                                      .cols = p.cols,
                                      .scale = 0.5f,
                                      .noise = p.noise},
                                     grad.data());
    const auto loss = [&] {
      const auto w = forward(p, theta);
      double sum = 0;
      for (std::size_t n = 0; n < w.size(); ++n) sum += w[n] * dw[n];
      return sum;
    };
    for (double& g : grad) g -= 1;
    worst = std::max(worst, distance_to_differences(theta, grad, loss));
  }
  // Two-sided: a bound that nothing comes near would hide a gradient that is almost right.
  EXPECT_LT(worst, 1e-6);
  EXPECT_GT(worst, 1e-12);
}

TEST(Reference, GradientOfLogDeviationsMatchesFiniteDifferences) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 40; seed += 3) {  // the stochastic ones
    SCOPED_TRACE(seed);
    const Problem p = random_problem(seed);
    ASSERT_EQ(p.shape.generator, Generator::kStochastic);
    auto theta = random_theta(p.shape, seed);
    std::vector<float> cotangent(2 * static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
    RandomStream(seed, "cotangent").fill_normal(cotangent, 0, 1);
    const std::vector<double> both(cotangent.begin(), cotangent.end());
    const std::size_t n = both.size() / 2;
    const std::int64_t row_stride = p.cols * p.shape.kernel;
    TileMemory<const double*> source{both.data(), row_stride, p.shape.kernel, p.rows, p.cols, 0.5f};
    source.log_deviation = both.data() + n;
    std::vector<double> grad(theta.size());
    reference::backward_tile<double>(p.shape, p.shape.layers(), theta.data(), source, grad.data());
    const auto loss = [&] {
      std::vector<double> out(2 * n);
      TileMemory<double*> target{out.data(), source.row_stride, source.col_stride, p.rows, p.cols,
                                 0.5f};
      target.log_deviation = out.data() + n;
      reference::forward_tile<double>(p.shape, p.shape.layers(), theta.data(), target);
      double sum = 0;
      for (std::size_t i = 0; i < out.size(); ++i) sum += out[i] * both[i];
      return sum;
    };
    worst = std::max(worst, distance_to_differences(theta, grad, loss));
  }
  EXPECT_LT(worst, 1e-6);
  EXPECT_GT(worst, 1e-12);
}

TEST(Reference, FloatGradientsStayNearTheDoubleOnes) {
  const auto kernel = make_reference_kernel();
  double worst = 0;
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    const Problem p = random_problem(seed);
    const auto wide = random_theta(p.shape, seed);
    const std::vector<float> theta(wide.begin(), wide.end());
    std::vector<float> dw(static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
    RandomStream(seed, "cotangent").fill_normal(dw, 0, 1);
    const std::vector<double> dw_wide(dw.begin(), dw.end());
    const std::int64_t row_stride = p.cols * p.shape.kernel, col_stride = p.shape.kernel;
    std::vector<float> grad(theta.size());
    const TileSource tile{dw.data(), row_stride, col_stride, p.rows, p.cols, 0.5f, p.noise};
    kernel->backward(p.shape, theta, std::span(&tile, 1), grad);
    std::vector<double> exact(theta.size());
    reference::backward_tile<double>(
        p.shape, p.shape.layers(), wide.data(),
        {dw_wide.data(), row_stride, col_stride, p.rows, p.cols, 0.5f, p.noise}, exact.data());
    double error = 0, size = 0;
    for (std::size_t n = 0; n < grad.size(); ++n) {
      error += std::pow(grad[n] - exact[n], 2);
      size += exact[n] * exact[n];
    }
    worst = std::max(worst, std::sqrt(error / size));
  }
  EXPECT_LT(worst, 1e-5);
  EXPECT_GT(worst, 1e-9);
}

GNetSpec matrix_spec(std::int64_t rows, std::int64_t cols, std::int64_t tile_rows,
                     std::int64_t tile_cols, std::int64_t hidden) {
  GNetSpec spec;
  spec.shape = {rows, cols};
  spec.tile_rows = tile_rows;
  spec.tile_cols = tile_cols;
  spec.hidden = {hidden};
  return spec;
}

TEST(Reference, SeveralTilesUseTheirOwnParameters) {
  const GNetSpec spec = matrix_spec(5, 7, 3, 4, 6);
  const BankShape shape = bank_shape(spec);
  const TileGrid grid = spec.grid();
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  RandomStream(5, "theta").fill_normal(theta, 0, 0.5f);
  std::vector<float> out(35);
  std::vector<TileTarget> tiles;
  for (std::int64_t t = 0; t < grid.tiles(); ++t) {
    const TileExtent e = grid.extent(t);
    tiles.push_back({out.data() + e.offset, e.row_stride, e.col_stride, e.rows, e.cols, 1});
  }
  make_reference_kernel()->forward(shape, theta, tiles);
  for (std::int64_t i = 0; i < 5; ++i)
    for (std::int64_t j = 0; j < 7; ++j) {
      const std::int64_t tile = i / 3 * 2 + j / 4;
      EXPECT_EQ(out[i * 7 + j],
                exact_gnet(shape, theta.data() + tile * shape.parameters(), i % 3, j % 4, 0, 1));
    }
}

TEST(TileKernel, RefusesMemoryThatDoesNotFit) {
  const auto kernel = make_reference_kernel();
  const GNetSpec spec = matrix_spec(4, 4, 4, 4, 3);
  const BankShape shape = bank_shape(spec);
  const std::size_t n = static_cast<std::size_t>(shape.parameters());
  std::vector<float> theta(n), grad(n), out(17);
  const auto code = [&](std::span<const float> t, TileTarget tile, const BankShape& s) {
    try {
      kernel->forward(s, t, std::span(&tile, 1));
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kFailure;
  };
  const TileTarget good{out.data(), 4, 1, 4, 4, 1};
  EXPECT_EQ(code(theta, good, shape), Errc::kFailure);
  EXPECT_EQ(code(std::span(theta).first(n - 1), good, shape), Errc::kShapeMismatch);
  TileTarget bad = good;
  bad.rows = 5;
  EXPECT_EQ(code(theta, bad, shape), Errc::kShapeMismatch);
  bad = good;
  bad.cols = -1;
  EXPECT_EQ(code(theta, bad, shape), Errc::kShapeMismatch);
  bad = good;
  bad.data = nullptr;
  EXPECT_EQ(code(theta, bad, shape), Errc::kShapeMismatch);
  bad.data = reinterpret_cast<float*>(reinterpret_cast<char*>(out.data()) + 1);
  EXPECT_EQ(code(theta, bad, shape), Errc::kShapeMismatch);
  BankShape wrong = shape;
  wrong.codes.rows.values.pop_back();
  EXPECT_EQ(code(theta, good, wrong), Errc::kShapeMismatch);
  wrong = shape;
  wrong.tile_cols = 5;
  EXPECT_EQ(code(theta, good, wrong), Errc::kShapeMismatch);
  const TileSource source{out.data(), 4, 1, 4, 4, 1};
  EXPECT_THROW(kernel->backward(shape, theta, std::span(&source, 1), std::span(grad).first(1)),
               Error);
}

}  // namespace
}  // namespace gbcompress
