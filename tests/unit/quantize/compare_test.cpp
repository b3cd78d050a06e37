#include "gbcompress/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include "gbcompress/artifact.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

const ComparedTensor& named(const Comparison& comparison, const std::string& name) {
  for (const ComparedTensor& tensor : comparison.tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no tensor " + name);
}

TEST(Compare, EveryWayInWhichTensorsDiffer) {
  MadeTensors a, b;
  a.add("same", {2}, {1, 2});
  b.add("same", {2}, {1, 2});
  a.add("off", {2}, {3, 4});
  b.add("off", {2}, {3, 4.5f});
  a.add("missing", {1}, {1});
  b.add("new", {1}, {1});
  a.add("shape", {2, 3}, normals(6, 1));
  b.add("shape", {3, 2}, normals(6, 1));
  a.add("type", {2}, {1, 2});
  b.add("type", DType::kF64, {2}, std::vector<double>{1, 2});
  a.add("counter", DType::kI64, {1}, std::vector<std::int64_t>{7});
  b.add("counter", DType::kI64, {1}, std::vector<std::int64_t>{8});
  a.add("broken", {1}, {1});
  b.add("broken", {1}, {std::numeric_limits<float>::quiet_NaN()});
  a.add("zeros", {2}, {0, 0});
  b.add("zeros", {2}, {0, 1});
  const Comparison found =
      compare_tensors(TensorSource::of(a.sorted()), TensorSource::of(b.sorted()));

  EXPECT_EQ(found.tensors.size(), 9u);
  EXPECT_EQ(found.same, 1);
  EXPECT_EQ(found.only_a, 1);
  EXPECT_EQ(found.only_b, 1);
  EXPECT_EQ(found.differ, 6);
  EXPECT_EQ(found.other_shape, 1);
  EXPECT_EQ(found.other_dtype, 1);
  EXPECT_TRUE(named(found, "same").same);
  EXPECT_EQ(named(found, "same").error, 0.0);
  EXPECT_DOUBLE_EQ(*named(found, "off").error, 0.25 / 25);
  EXPECT_DOUBLE_EQ(*named(found, "off").energy, (9 + 20.25) / 25);
  EXPECT_FALSE(named(found, "missing").b);
  EXPECT_FALSE(named(found, "new").a);
  EXPECT_EQ(found.tensors.back().name, "new");
  EXPECT_FALSE(named(found, "shape").error);
  EXPECT_FALSE(named(found, "type").same);
  EXPECT_EQ(named(found, "type").error, 0.0);
  EXPECT_FALSE(named(found, "counter").same);
  EXPECT_FALSE(named(found, "counter").error);
  EXPECT_TRUE(std::isnan(*named(found, "broken").error));
  EXPECT_EQ(named(found, "zeros").error, 1.0);
}

TEST(Compare, AFileAndItsSourceDifferByWhatItsReportSays) {
  const TempDir folder;
  MadeTensors made;
  made.add("a.weight", {64, 96}, normals(64 * 96, 1));
  made.add("b.weight", {32, 32}, normals(32 * 32, 2, 0.01f));
  made.add("b.bias", {32}, normals(32, 3));
  const TensorBundle& source = made.sorted();
  const WeightsReport report =
      compress_weights(source, folder.path() / "x.gbz", {.max_error = 0.01});
  const TensorSource file = TensorSource::of(ArtifactReader::open(folder.path() / "x.gbz"));
  const Comparison found = compare_tensors(TensorSource::of(source), file);
  double bits = 0;
  ASSERT_EQ(found.tensors.size(), report.tensors.size());
  for (const StoredTensor& tensor : report.tensors) {
    // Sums of squares in another order.
    EXPECT_NEAR(*named(found, tensor.name).error, tensor.error, 1e-12) << tensor.name;
    EXPECT_NEAR(*named(found, tensor.name).energy, tensor.energy, 1e-12) << tensor.name;
    EXPECT_DOUBLE_EQ(named(found, tensor.name).b->bits(), tensor.bits()) << tensor.name;
    bits += tensor.bits();
  }
  EXPECT_GT(bits, 0);
  EXPECT_NEAR(found.total_error, report.total_error, 1e-9);
  EXPECT_GT(found.total_error, 0.001);
}

}  // namespace
}  // namespace gbcompress
