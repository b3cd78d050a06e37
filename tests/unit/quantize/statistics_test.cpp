#include "gbcompress/statistics.h"

#include <gtest/gtest.h>

#include <limits>

#include "gbcompress/error.h"
#include "support/code_of.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

TEST(Statistics, AreReadByTheEndsOfNames) {
  MadeTensors made;
  const auto moment = normals(9, 1), blocks = normals(2 * 4, 2);
  made.add("a.weight.input_moment", {3, 3}, moment);
  made.add("a.weight.row_importance", {2}, std::vector<float>{1, 0});
  made.add("a.weight.input_mean", {3}, normals(3, 3));
  made.add("conv.weight.input_moment", {2, 2, 2}, blocks);
  made.add("w_ih|w_hh.input_moment", {3, 3}, moment);
  made.add("a.weight.output_moment", {2, 2}, std::vector<float>{1, 0, 0, 1});
  const Statistics read = read_statistics(made.sorted());
  ASSERT_EQ(read.tensors.size(), 3u);
  const TensorStatistics& a = read.tensors.at("a.weight");
  EXPECT_EQ(a.input_moment, moment);
  EXPECT_EQ(a.row_importance, (std::vector<float>{1, 0}));
  EXPECT_EQ(a.input_mean.size(), 3u);
  EXPECT_EQ(a.output_moment.size(), 4u);
  EXPECT_EQ(a.groups, 1);
  EXPECT_EQ(read.tensors.at("conv.weight").groups, 2);
  EXPECT_EQ(read.tensors.at("conv.weight").input_moment, blocks);
  EXPECT_EQ(read.tensors.at("w_ih|w_hh").input_moment, moment);
}

Errc code_for(const std::string& name, std::vector<std::int64_t> shape, std::vector<float> values) {
  MadeTensors made;
  made.add(name, std::move(shape), values);
  return code_of([&] { read_statistics(made.sorted()); });
}

TEST(Statistics, RefuseWhatIsNone) {
  EXPECT_EQ(code_for("a.weight", {2, 2}, normals(4, 1)), Errc::kUsage);
  EXPECT_EQ(code_for(".input_moment", {2, 2}, normals(4, 1)), Errc::kUsage);
  EXPECT_EQ(code_for("a.input_moment", {2, 3}, normals(6, 1)), Errc::kShapeMismatch);
  EXPECT_EQ(code_for("a.input_moment", {4}, normals(4, 1)), Errc::kShapeMismatch);
  EXPECT_EQ(code_for("a.output_moment", {2, 2, 2}, normals(8, 1)), Errc::kShapeMismatch);
  EXPECT_EQ(code_for("a.row_importance", {2, 2}, normals(4, 1)), Errc::kShapeMismatch);
  EXPECT_EQ(code_for("a.row_importance", {2}, {1, -1}), Errc::kNonFinite);
  EXPECT_EQ(code_for("a.input_moment", {1, 1}, {std::numeric_limits<float>::quiet_NaN()}),
            Errc::kNonFinite);
  MadeTensors whole;
  whole.add<std::int8_t>("a.input_mean", DType::kI8, {2}, {1, 2});
  EXPECT_EQ(code_of([&] { read_statistics(whole.sorted()); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
