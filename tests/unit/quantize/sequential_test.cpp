/// Quantization layer by layer, on a model of two linear layers.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "gbcompress/artifact.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "support/decoded.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::decoded;
using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

constexpr std::size_t kIn = 48, kHidden = 64, kOut = 40, kSamples = 400;

using Values = std::vector<float>;

/// x W^T; x [rows, from], W [to, from]
Values product(const Values& x, const Values& weights, std::size_t from, std::size_t to) {
  Values result;
  for (std::size_t row = 0; row < x.size(); row += from)
    for (std::size_t i = 0; i < to; ++i) {
      double sum = 0;
      for (std::size_t j = 0; j < from; ++j)
        sum += static_cast<double>(x[row + j]) * static_cast<double>(weights[i * from + j]);
      result.push_back(static_cast<float>(sum));
    }
  return result;
}

/// Mean over rows of a bT.
Values moment(const Values& a, const Values& b, std::size_t n) {
  std::vector<double> sums(n * n);
  for (std::size_t row = 0; row < a.size(); row += n)
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        sums[i * n + j] += static_cast<double>(a[row + i]) * static_cast<double>(b[row + j]);
  Values result;
  for (const double sum : sums)
    result.push_back(
        static_cast<float>(sum * static_cast<double>(n) / static_cast<double>(a.size())));
  return result;
}

Values mean(const Values& a, std::size_t n) {
  Values result(n);
  for (std::size_t i = 0; i < a.size(); ++i)
    result[i % n] += a[i] * static_cast<float>(n) / static_cast<float>(a.size());
  return result;
}

class Layers : public SequentialModel {
 public:
  Layers()
      : first(normals(kHidden * kIn, 1)),
        second(normals(kOut * kHidden, 2)),
        x(product(normals(kSamples * 8, 3), normals(kIn * 8, 4), 8, kIn)) {
    made.add("a.weight", {kHidden, kIn}, first);
    made.add("b.weight", {kOut, kHidden}, second);
    made.sorted();
    const Values hidden = product(x, first, kIn, kHidden);
    statistics.tensors["a.weight"].input_moment = moment(x, x, kIn);
    statistics.tensors["b.weight"].input_moment = moment(hidden, hidden, kHidden);
  }

  std::vector<std::vector<std::string>> groups() override {
    return {{"unknown.weight"}, {"a.weight"}, {"b.weight"}};
  }
  void begin() override { now = {{"a.weight", first}, {"b.weight", second}}; }
  void put(const std::string& name, std::span<const float> values) override {
    now[name].assign(values.begin(), values.end());
  }
  SequentialInputs inputs(const std::string& name) override {
    if (name == "a.weight")
      return {moment(x, x, kIn), Values(kIn * kIn), mean(x, kIn), mean(x, kIn)};
    const Values before = product(x, first, kIn, kHidden);
    const Values hidden = product(x, now.at("a.weight"), kIn, kHidden);
    Values change;
    for (std::size_t i = 0; i < hidden.size(); ++i) change.push_back(before[i] - hidden[i]);
    SequentialInputs result{moment(hidden, hidden, kHidden), moment(change, hidden, kHidden),
                            mean(hidden, kHidden), mean(before, kHidden)};
    if (nan) result.cross[3] = NAN;
    if (narrow) result.moment.pop_back();
    return result;
  }

  WeightsReport write(const std::filesystem::path& file, bool sequential) {
    WeightsOptions options{.statistics = &statistics, .overwrite = true};
    options.max_bytes = kBytes;
    options.sequential = sequential ? this : nullptr;
    return compress_weights(made.bundle, file, options);
  }
  /// Squared error of the outputs over their squares.
  double error(const std::filesystem::path& file) const {
    const Values before = product(product(x, first, kIn, kHidden), second, kHidden, kOut);
    const Values after = product(product(x, decoded(file, "a.weight"), kIn, kHidden),
                                 decoded(file, "b.weight"), kHidden, kOut);
    double error = 0, squares = 0;
    for (std::size_t i = 0; i < before.size(); ++i) {
      error += std::pow(static_cast<double>(before[i] - after[i]), 2);
      squares += std::pow(static_cast<double>(before[i]), 2);
    }
    return error / squares;
  }

  static constexpr std::int64_t kBytes = (kIn * kHidden + kHidden * kOut) * 2 / 8;
  const Values first, second, x;
  MadeTensors made;
  Statistics statistics;
  std::map<std::string, Values> now;
  bool nan = false, narrow = false;
};

TEST(Sequential, LaterLayersMakeUpForEarlierOnes) {
  Layers layers;
  const TempDir folder;
  const auto apart = folder.path() / "apart.gbz", fitted = folder.path() / "fitted.gbz";
  const WeightsReport one = layers.write(apart, false), two = layers.write(fitted, true);
  EXPECT_LE(one.output_bytes, Layers::kBytes);
  EXPECT_LE(two.output_bytes, Layers::kBytes);
  EXPECT_GT(two.output_bytes, 0.96 * static_cast<double>(one.output_bytes));
  EXPECT_LT(layers.error(fitted), 0.8 * layers.error(apart));
}

TEST(Sequential, TheModelHoldsWhatTheFileHolds) {
  Layers layers;
  const TempDir folder;
  const auto file = folder.path() / "m.gbz";
  layers.write(file, true);
  for (const char* name : {"a.weight", "b.weight"})
    EXPECT_EQ(layers.now.at(name), decoded(file, name));
}

TEST(Sequential, ACopyThatIsStoredOnceIsShownUnderBothNames) {
  Layers layers;
  layers.made.add("0.weight", {kOut, kHidden}, layers.second);
  layers.made.sorted();
  const TempDir folder;
  const auto file = folder.path() / "m.gbz", apart = folder.path() / "apart.gbz";
  EXPECT_EQ(layers.write(file, true).tensors[2].stored, "tied");
  for (const char* name : {"0.weight", "b.weight"})
    EXPECT_EQ(layers.now.at(name), decoded(file, "b.weight")) << name;
  layers.write(apart, false);
  EXPECT_LT(layers.error(file), 0.8 * layers.error(apart));
}

TEST(Sequential, RefusesInputsThatAreNone) {
  const TempDir folder;
  const auto file = folder.path() / "m.gbz";
  Layers wrong;
  wrong.narrow = true;
  EXPECT_THROW(wrong.write(file, true), Error);
  Layers missing;
  missing.nan = true;
  EXPECT_THROW(missing.write(file, true), Error);
  EXPECT_FALSE(std::filesystem::exists(file));
  Layers layers;
  WeightsOptions options{.sequential = &layers};
  options.max_bytes = Layers::kBytes;
  EXPECT_THROW(compress_weights(layers.made.bundle, file, options), Error);
}

}  // namespace
}  // namespace gbcompress
