/// compress_weights() under statistics.
#include <gtest/gtest.h>

#include <cmath>

#include "artifact/sections/elements.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "support/code_of.h"
#include "support/decoded.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::decoded;
using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

/// E[x xT] [n, n] of inputs that are mostly combinations of n / 4 others.
std::vector<float> correlated(std::int64_t n, std::uint64_t seed) {
  const std::int64_t k = n / 4;
  const auto mixed = normals(n * k, seed);
  std::vector<float> moment(static_cast<std::size_t>(n * n));
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      float sum = i == j ? 0.1f : 0;
      for (std::int64_t l = 0; l < k; ++l)
        sum +=
            mixed[static_cast<std::size_t>(i * k + l)] * mixed[static_cast<std::size_t>(j * k + l)];
      moment[static_cast<std::size_t>(i * n + j)] = sum;
    }
  return moment;
}

/// tr(E A ET) of columns [first, first + n) of rows.
double output_error(const std::vector<float>& w, const std::vector<float>& stored,
                    const std::vector<float>& moment, std::int64_t n) {
  double sum = 0;
  for (std::size_t row = 0; row < w.size() / static_cast<std::size_t>(n); ++row)
    for (std::size_t j = 0; j < static_cast<std::size_t>(n); ++j)
      for (std::size_t k = 0; k < static_cast<std::size_t>(n); ++k) {
        const std::size_t at = row * static_cast<std::size_t>(n);
        sum += static_cast<double>(w[at + j] - stored[at + j]) *
               static_cast<double>(moment[j * static_cast<std::size_t>(n) + k]) *
               static_cast<double>(w[at + k] - stored[at + k]);
      }
  return sum;
}

/// A quarter of each block [n, n] becomes the identity of the same mean diagonal.
void blend(std::vector<float>& moments, std::int64_t n) {
  for (std::size_t first = 0; first < moments.size(); first += static_cast<std::size_t>(n * n)) {
    const auto diagonal = [&](std::int64_t i) -> float& {
      return moments[first + static_cast<std::size_t>(i * (n + 1))];
    };
    double mean = 0;
    for (std::int64_t i = 0; i < n; ++i)
      mean += static_cast<double>(diagonal(i)) / static_cast<double>(n);
    for (std::size_t i = 0; i < static_cast<std::size_t>(n * n); ++i) moments[first + i] *= 0.75f;
    for (std::int64_t i = 0; i < n; ++i) diagonal(i) += static_cast<float>(0.25 * mean);
  }
}

struct Calibrated : ::testing::Test {
  WeightsReport compress(const MadeTensors& made, const char* name, const Statistics* statistics,
                         std::int64_t bytes, int threads = 1) {
    WeightsOptions options{.max_bytes = bytes, .threads = threads};
    options.statistics = statistics;
    return compress_weights(made.bundle, folder.path() / name, options);
  }
  TempDir folder;
};

TEST_F(Calibrated, ErrorsOfOutputsAreSmallerAtTheSameSize) {
  MadeTensors made;
  const std::int64_t n = 96;
  const auto w = normals(80 * n, 1, 0.1f);
  made.add("a.weight", {80, n}, w);
  made.sorted();
  Statistics statistics;
  statistics.tensors["a.weight"].input_moment = correlated(n, 2);
  const auto plain = compress(made, "plain.gbz", nullptr, 3000);
  const auto tuned = compress(made, "tuned.gbz", &statistics, 3000);
  EXPECT_LE(tuned.output_bytes, 3000);
  const auto& moment = statistics.tensors["a.weight"].input_moment;
  const double before =
      output_error(w, decoded(folder.path() / "plain.gbz", "a.weight"), moment, n);
  const double after = output_error(w, decoded(folder.path() / "tuned.gbz", "a.weight"), moment, n);
  EXPECT_LT(after, 0.5 * before);
  const auto again = compress(made, "again.gbz", &statistics, 3000, 3);
  EXPECT_EQ(again.identity, tuned.identity);
}

TEST_F(Calibrated, ShrinkageReplacesAPartOfTheMomentsByTheIdentity) {
  MadeTensors made;
  const std::int64_t n = 48;
  std::uint64_t seed = 10;
  for (const char* name : {"a.weight", "b.weight", "c.weight"})
    made.add(name, {40, n}, normals(40 * n, seed++, 0.1f));
  made.sorted();
  Statistics given;
  given.tensors["a.weight"].input_moment = correlated(n, 2);
  TensorStatistics& grouped = given.tensors["b.weight"];
  grouped.groups = 2;
  grouped.input_moment = correlated(n, 3);
  const auto second = correlated(n, 4);
  for (const float value : second) grouped.input_moment.push_back(2 * value);
  given.tensors["c.weight"].input_moment = correlated(n, 5);
  given.tensors["c.weight"].output_moment = correlated(40, 6);
  Statistics blended = given;
  for (auto& [name, of] : blended.tensors) {
    blend(of.input_moment, n);
    blend(of.output_moment, 40);
  }
  const auto identity = [&](const Statistics& statistics, double shrinkage) {
    WeightsOptions options{.max_bytes = 2700};
    options.statistics = &statistics;
    options.statistics_use.shrinkage = shrinkage;
    options.overwrite = true;
    return compress_weights(made.bundle, folder.path() / "x.gbz", options).identity;
  };
  EXPECT_EQ(identity(given, 0.25), identity(blended, 0));
  EXPECT_NE(identity(given, 0.25), identity(given, 0));
}

TEST_F(Calibrated, DependentIntegersLoseLessThanTheNearest) {
  MadeTensors made;
  const std::int64_t n = 128;
  const auto w = normals(160 * n, 1, 0.1f);
  made.add("a.weight", {160, n}, w);
  made.add("b.weight", {160, n}, normals(160 * n, 5, 0.1f));  // with the moments of a
  made.sorted();
  Statistics statistics;
  const auto moment = correlated(n, 2);
  for (const char* name : {"a.weight", "b.weight"}) statistics.tensors[name].input_moment = moment;
  for (const bool lanes : {false, true}) {
    const auto error = [&](Quantizer quantizer) {
      WeightsOptions options{.max_bytes = 14000, .quantizer = quantizer, .lanes = lanes};
      options.statistics = &statistics;
      options.overwrite = true;
      const auto report = compress_weights(made.bundle, folder.path() / "x.gbz", options);
      EXPECT_LE(report.output_bytes, 14000);
      return output_error(w, decoded(folder.path() / "x.gbz", "a.weight"), moment, n);
    };
    EXPECT_LT(error(Quantizer::kTrellis), 0.85 * error(Quantizer::kNearest)) << lanes;
  }
}

TEST_F(Calibrated, TwoMatricesAreRoundedAsOne) {
  MadeTensors made;
  const std::int64_t a = 40, b = 24, rows = 64;
  const auto wa = normals(rows * a, 1, 0.1f), wb = normals(rows * b, 2, 0.2f);
  made.add("w_ih", {rows, a}, wa);
  made.add("w_hh", {rows, b}, wb);
  made.sorted();
  Statistics joint;
  joint.tensors["w_ih|w_hh"].input_moment = correlated(a + b, 3);
  compress(made, "plain.gbz", nullptr, 1800);
  compress(made, "joint.gbz", &joint, 1800);
  const auto both = [&](const std::vector<float>& x, const std::vector<float>& y) {
    std::vector<float> all;
    for (std::int64_t i = 0; i < rows; ++i) {
      all.insert(all.end(), x.begin() + i * a, x.begin() + (i + 1) * a);
      all.insert(all.end(), y.begin() + i * b, y.begin() + (i + 1) * b);
    }
    return all;
  };
  const auto error = [&](const char* name) {
    return output_error(
        both(wa, wb),
        both(decoded(folder.path() / name, "w_ih"), decoded(folder.path() / name, "w_hh")),
        joint.tensors["w_ih|w_hh"].input_moment, a + b);
  };
  EXPECT_LT(error("joint.gbz"), 0.6 * error("plain.gbz"));
}

TEST_F(Calibrated, GroupsHaveMomentsOfTheirOwn) {
  MadeTensors made;
  const std::int64_t groups = 3, rows = 8, n = 36;
  const auto w = normals(groups * rows * n, 1, 0.1f);
  made.add("conv.weight", {groups * rows, 4, 3, 3}, w);
  made.sorted();
  Statistics statistics;
  TensorStatistics& own = statistics.tensors["conv.weight"];
  own.groups = groups;
  for (std::uint64_t g = 0; g < 3; ++g) {
    const auto block = correlated(n, 7 + g);
    own.input_moment.insert(own.input_moment.end(), block.begin(), block.end());
  }
  compress(made, "plain.gbz", nullptr, 500);
  compress(made, "tuned.gbz", &statistics, 500);
  const auto error = [&](const char* name) {
    const auto stored = decoded(folder.path() / name, "conv.weight");
    double sum = 0;
    for (std::ptrdiff_t g = 0; g < groups; ++g) {
      const auto part = [&](const std::vector<float>& of) {
        return std::vector<float>(of.begin() + g * rows * n, of.begin() + (g + 1) * rows * n);
      };
      const std::vector<float> block(own.input_moment.begin() + g * n * n,
                                     own.input_moment.begin() + (g + 1) * n * n);
      sum += output_error(part(w), part(stored), block, n);
    }
    return sum;
  };
  EXPECT_LT(error("tuned.gbz"), 0.7 * error("plain.gbz"));
}

TEST_F(Calibrated, ImportantTensorsHaveFinerSteps) {
  MadeTensors made;
  made.add("a.weight", {64, 64}, normals(64 * 64, 1));
  made.add("b.weight", {64, 64}, normals(64 * 64, 2));
  made.sorted();
  Statistics statistics;
  statistics.tensors["a.weight"].row_importance.assign(64, 100);
  statistics.tensors["b.weight"].row_importance.assign(64, 1);
  const WeightsReport report = compress(made, "x.gbz", &statistics, 3000);
  // 100 to the power of -0.375: 2.49 octaves of sixteenths.
  EXPECT_NEAR(std::log2(report.tensors[1].step / report.tensors[0].step), 2.49, 0.13);
  EXPECT_LE(report.output_bytes, 3000);
}

/// A stack of matrices [4, 20, 16] has 80 rows with steps of their own, and a kernel of that shape,
/// whose inputs were measured, has 4.
TEST_F(Calibrated, TheFirstDimensionMayHaveSeveralRows) {
  MadeTensors made;
  made.add("a.weight", {4, 20, 16}, normals(4 * 20 * 16, 1));
  made.add("b.weight", {64, 64}, normals(64 * 64, 2));
  made.sorted();
  const auto with = [&](std::vector<float> importance) {
    Statistics statistics;
    statistics.tensors["a.weight"].row_importance = std::move(importance);
    statistics.tensors["b.weight"].row_importance.assign(64, 1);
    return statistics;
  };
  const auto bytes_of = [&](const Statistics& statistics, const char* file) {
    compress(made, file, &statistics, 2500);
    return testing::get_file(folder.path() / file);
  };
  const auto whole = bytes_of(with({1, 2, 3, 4}), "whole.gbz");
  std::vector<float> rows;
  for (int i = 0; i < 4 * 20; ++i) rows.push_back(static_cast<float>(i / 20 + 1) / 20);
  EXPECT_EQ(whole, bytes_of(with(rows), "rows.gbz"));
  Statistics kernel = with({1, 2, 3, 4});
  kernel.tensors["a.weight"].input_moment = correlated(20 * 16, 3);
  EXPECT_NE(whole, bytes_of(kernel, "kernel.gbz"));
  const Statistics wrong = with({1, 2, 3});
  EXPECT_EQ(code_of([&] { compress(made, "wrong.gbz", &wrong, 2500); }), Errc::kShapeMismatch);
}

TEST_F(Calibrated, RowsThatAreReadOftenHaveFinerStepsAndLeaveBitsToOtherTensors) {
  const std::int64_t n = 32, rows = 512, often = 32;
  MadeTensors made;
  const std::vector<float> table = normals(rows * n, 1), body = normals(64 * n, 2);
  made.add("body.weight", {64, n}, body);
  made.add("table.weight", {rows, n}, table);
  made.sorted();
  std::vector<float> importance(rows, 1);
  std::fill_n(importance.begin(), often, 1000.0f);
  double mean = 0;
  for (const float value : importance) mean += static_cast<double>(value) / rows;
  /// What errors cost, and what those of the body do.
  const auto loss = [&](const std::vector<float>& told, const char* name) {
    Statistics statistics;
    statistics.tensors["body.weight"].row_importance.assign(64, static_cast<float>(mean));
    statistics.tensors["table.weight"].row_importance = told;
    compress(made, name, &statistics, 5500);
    const auto squares = [&](const char* tensor, const std::vector<float>& given,
                             const auto& weight_of) {
      const std::vector<float> stored = decoded(folder.path() / name, tensor);
      double sum = 0;
      for (std::size_t i = 0; i < given.size(); ++i)
        sum += weight_of(i / n) * std::pow(static_cast<double>(given[i] - stored[i]), 2);
      return sum;
    };
    const double of_body = squares("body.weight", body, [&](std::size_t) { return mean; });
    return std::pair(
        of_body + squares("table.weight", table,
                          [&](std::size_t row) { return static_cast<double>(importance[row]); }),
        of_body);
  };
  const auto [alike, body_alike] =
      loss(std::vector<float>(rows, static_cast<float>(mean)), "alike.gbz");
  const auto [known, body_known] = loss(importance, "known.gbz");
  EXPECT_LT(known, 0.4 * alike);
  EXPECT_LT(body_known, 0.5 * body_alike);
}

TEST_F(Calibrated, StatisticsOfATiedTensorAreThoseOfTheOneThatIsStored) {
  const std::int64_t n = 48;
  MadeTensors made;
  for (const char* name : {"embedding.weight", "head.weight"})  // a copy
    made.add(name, {40, n}, normals(40 * n, 1, 0.1f));
  made.add("other.weight", {40, n}, normals(40 * n, 2, 0.1f));
  made.sorted();
  const std::vector<float> moment = correlated(n, 3), first(40, 2), second(40, 3), sum(40, 5);
  const auto identity = [&](auto change) {
    Statistics statistics;
    statistics.tensors["other.weight"].row_importance.assign(40, 1);
    change(statistics.tensors);
    std::filesystem::remove(folder.path() / "x.gbz");
    return compress(made, "x.gbz", &statistics, 1500).identity;
  };
  const std::string expected = identity([&](auto& tensors) {
    tensors["embedding.weight"].input_moment = moment;
    tensors["embedding.weight"].row_importance = sum;
  });
  EXPECT_EQ(identity([&](auto& tensors) {
              tensors["head.weight"].input_moment = moment;
              tensors["head.weight"].row_importance = sum;
            }),
            expected);
  EXPECT_EQ(identity([&](auto& tensors) {
              tensors["head.weight"].input_moment = moment;
              tensors["head.weight"].row_importance = first;
              tensors["embedding.weight"].row_importance = second;
            }),
            expected);
  EXPECT_NE(identity([&](auto& tensors) { tensors["head.weight"].row_importance = sum; }),
            expected);
  EXPECT_EQ(code_of([&] {
              identity([&](auto& tensors) {
                tensors["head.weight"].row_importance = first;
                tensors["embedding.weight"].row_importance.assign(39, 1);
              });
            }),
            Errc::kShapeMismatch);
}

TEST_F(Calibrated, RefusesStatisticsOfAnotherModel) {
  MadeTensors made;
  made.add("a.weight", {32, 32}, normals(32 * 32, 1));
  made.sorted();
  const auto code = [&](const std::string& name, auto change, std::int64_t bytes = 500) {
    Statistics statistics;
    change(statistics.tensors[name]);
    return code_of([&] { compress(made, "x.gbz", &statistics, bytes); });
  };
  EXPECT_EQ(code("b.weight", [](auto& s) { s.row_importance.assign(32, 1); }), Errc::kUsage);
  EXPECT_EQ(code("a.weight", [](auto& s) { s.row_importance.assign(31, 1); }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code("a.weight", [](auto& s) { s.input_moment.assign(31 * 31, 1); }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code("a.weight", [](auto& s) { s.groups = 5; }), Errc::kShapeMismatch);
  EXPECT_EQ(code("a.weight|b.weight", [](auto& s) { s.input_moment.assign(1, 1); }), Errc::kUsage);
  // Not positive semidefinite, whatever the damping.
  EXPECT_EQ(code("a.weight",
                 [](auto& s) {
                   s.input_moment.assign(32 * 32, 5);
                   for (std::size_t i = 0; i < 32; ++i) s.input_moment[i * 33] = 1;
                 }),
            Errc::kNonFinite);
  Statistics statistics;
  statistics.tensors["a.weight"].row_importance.assign(32, 1);
  WeightsOptions options{.max_error = 0.1};
  options.statistics = &statistics;
  EXPECT_EQ(code_of([&] { compress_weights(made.bundle, folder.path() / "x.gbz", options); }),
            Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
