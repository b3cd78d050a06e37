/// Sizes and errors of single matrices (WeightsOptions::targets).
#include <gtest/gtest.h>

#include <cmath>

#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "support/code_of.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

struct Targets : ::testing::Test {
  Targets() {
    std::uint64_t seed = 0;
    for (const char* name : {"a.weight", "b.weight", "c.weight", "d.weight"})
      made.add(name, {96, 128}, normals(96 * 128, ++seed, 0.1f));
    made.sorted();
  }
  WeightsReport compress(WeightsOptions options, std::vector<TensorTarget> targets) {
    options.targets = std::move(targets);
    options.overwrite = true;
    return compress_weights(made.bundle, folder.path() / "x.gbz", options);
  }
  static double bits(const StoredTensor& tensor) { return tensor.bits(); }
  MadeTensors made;
  TempDir folder;
};

TEST_F(Targets, MatricesHaveTheirOwnSizeAndErrorInAFileOfTheTarget) {
  const std::int64_t bytes = 4 * 96 * 128 * 3 / 8;
  const WeightsReport plain = compress({.max_bytes = bytes}, {});
  const WeightsReport report =
      compress({.max_bytes = bytes}, {{"*.weight", 2.0, {}}, {"c.*", {}, 0.0002}});
  EXPECT_NEAR(bits(report.tensors[0]), 2, 0.1);
  EXPECT_NEAR(bits(report.tensors[1]), 2, 0.1);
  EXPECT_LE(report.tensors[2].error, 0.0002);
  EXPECT_GT(report.tensors[2].error, 0.0001);
  const WeightsReport rest = compress({.max_bytes = bytes}, {{"a.weight", 5.0, {}}});
  EXPECT_TRUE(rest.target_met);
  EXPECT_GT(rest.output_bytes, 0.98 * static_cast<double>(bytes));
  EXPECT_NEAR(bits(rest.tensors[0]), 5, 0.1);
  EXPECT_LT(bits(rest.tensors[1]), bits(plain.tensors[1]) - 0.4);  // the others have what is left
}

TEST_F(Targets, OneErrorForAllAndOthersForSome) {
  const WeightsReport report =
      compress({.max_error = 0.01}, {{"b.weight", {}, 0.0001}, {"c.weight", 6.0, {}}});
  EXPECT_TRUE(report.target_met) << report.target_note;
  EXPECT_NEAR(report.tensors[0].error, 0.01, 0.002);
  EXPECT_LE(report.tensors[1].error, 0.0001);
  EXPECT_NEAR(bits(report.tensors[2]), 6, 0.1);
  EXPECT_TRUE(compress({.max_error = 0.001}, {{"d.weight", {}, 0.1}}).target_met);
}

TEST_F(Targets, HoldBesideStatistics) {
  Statistics statistics;
  for (const char* name : {"a.weight", "b.weight"}) {
    TensorStatistics& of = statistics.tensors[name];
    of.input_moment.assign(128 * 128, 0.5f);
    for (std::size_t i = 0; i < 128; ++i) of.input_moment[i * 129] = 2;
    of.row_importance.assign(96, 1);
  }
  const std::int64_t bytes = 4 * 96 * 128 * 3 / 8;
  const WeightsReport report = compress({.max_bytes = bytes, .statistics = &statistics},
                                        {{"a.weight", {}, 0.0005}, {"b.weight", 4.0, {}}});
  EXPECT_LE(report.tensors[0].error, 0.0005);
  EXPECT_NEAR(bits(report.tensors[1]), 4, 0.15);
  EXPECT_LE(report.output_bytes, bytes);
}

TEST_F(Targets, RefusesWhatContradictsItself) {
  const auto code = [&](TensorTarget target) {
    return code_of([&] { compress({.max_bytes = 20000}, {std::move(target)}); });
  };
  EXPECT_EQ(code({"a.weight", {}, {}}), Errc::kUsage);
  EXPECT_EQ(code({"a.weight", 3.0, 0.1}), Errc::kUsage);
  EXPECT_EQ(code({"a.weight", 0.0, {}}), Errc::kUsage);
  EXPECT_EQ(code({"a.weight", {}, 1.0}), Errc::kUsage);
  EXPECT_EQ(code({"a.weight", {}, NAN}), Errc::kUsage);
  EXPECT_EQ(code_of([&] {
              compress({.max_error = 0.01, .measure = ErrorMeasure::kTotal}, {{"a.*", 3.0, {}}});
            }),
            Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
