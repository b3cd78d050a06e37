// Products of matrices against loops that know nothing of tiles, and against finite differences.
#include <gtest/gtest.h>

#include <cmath>

#include "base/random.h"
#include "gnet/reference_product.h"

namespace gbcompress {
namespace {

struct Product {
  BankShape shape;
  std::int64_t rows, cols;
  std::vector<double> theta;
};

Product random_product(std::uint64_t seed) {
  const RandomStream random(seed, "product test");
  std::uint64_t index = 0;
  const auto roll = [&](std::int64_t low, std::int64_t high) {
    return low + random.bits(index++) % (high - low + 1);
  };
  GNetSpec spec;
  spec.generator = seed % 2 ? Generator::kLowRank : Generator::kXox;
  spec.rank = roll(1, 5);
  spec.hidden.clear();
  spec.tile_rows = roll(1, 7);
  spec.tile_cols = roll(1, 9);
  spec.shape = {spec.tile_rows, spec.tile_cols};
  if (seed % 3 == 0) {
    spec.shape.push_back(3);
    spec.kernel_codes = {Encoding::kOneHot};
  }
  Product p{bank_shape(spec), roll(1, spec.tile_rows), roll(1, spec.tile_cols), {}};
  std::vector<float> values(static_cast<std::size_t>(p.shape.parameters()));
  random.fill_normal(values, 0, 0.7f, 1000);
  p.theta.assign(values.begin(), values.end());
  return p;
}

std::vector<double> forward(const Product& p) {
  std::vector<double> out(static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
  reference::forward_product<double>(
      p.shape, p.theta.data(),
      {out.data(), p.cols * p.shape.kernel, p.shape.kernel, p.rows, p.cols, 0.5f});
  return out;
}

TEST(Product, IsTheProductOfItsMatrices) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    const Product p = random_product(seed);
    const std::int64_t r = p.shape.rank, rows = p.shape.tile_rows, kernel = p.shape.kernel;
    const double* x = p.theta.data();
    const bool xox = p.shape.generator == Generator::kXox;
    const double* core = x + rows * r;
    const double* y = core + (xox ? r * r : 0);
    ASSERT_EQ(p.shape.parameters(), (y - x) + p.shape.tile_cols * kernel * r);
    const auto out = forward(p);
    std::size_t n = 0;
    for (std::int64_t i = 0; i < p.rows; ++i)
      for (std::int64_t j = 0; j < p.cols * kernel; ++j) {
        double sum = 0;
        for (std::int64_t a = 0; a < r; ++a)
          for (std::int64_t b = 0; b < r; ++b)
            sum += x[i * r + a] * (xox ? core[a * r + b] : a == b) * y[j * r + b];
        ASSERT_NEAR(out[n++], 0.5 * sum, 1e-12);
      }
  }
}

TEST(Product, BackwardMatchesFiniteDifferences) {
  double worst = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    Product p = random_product(seed);
    std::vector<float> cotangent(static_cast<std::size_t>(p.rows * p.cols * p.shape.kernel));
    RandomStream(seed, "cotangent").fill_normal(cotangent, 0, 1);
    const std::vector<double> dw(cotangent.begin(), cotangent.end());
    std::vector<double> grad(p.theta.size(), 1.0);  // gradients are added to what is there
    reference::backward_product<double>(
        p.shape, p.theta.data(),
        {dw.data(), p.cols * p.shape.kernel, p.shape.kernel, p.rows, p.cols, 0.5f}, grad.data());
    const auto loss = [&] {
      const auto w = forward(p);
      double sum = 0;
      for (std::size_t n = 0; n < w.size(); ++n) sum += w[n] * dw[n];
      return sum;
    };
    double error = 0, size = 0;
    for (std::size_t n = 0; n < grad.size(); ++n) {
      const double kept = p.theta[n], step = 1e-5;
      p.theta[n] = kept + step;
      const double up = loss();
      p.theta[n] = kept - step;
      const double down = loss();
      p.theta[n] = kept;
      const double numeric = (up - down) / (2 * step);
      error += std::pow(grad[n] - 1 - numeric, 2);
      size += numeric * numeric;
    }
    ASSERT_GT(size, 0);
    worst = std::max(worst, std::sqrt(error / size));
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_GT(worst, 1e-14);
}

}  // namespace
}  // namespace gbcompress
