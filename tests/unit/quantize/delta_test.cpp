// What changed since a base model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
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

/// A model, or the same after some steps of training: two matrices and a bias have moved a little,
/// a counter by one, an embedding not at all.
TensorBundle model(float moved, std::int64_t steps) {
  MadeTensors made;
  const auto with = [&](const std::string& name, std::vector<std::int64_t> shape,
                        std::int64_t count, std::uint64_t seed) {
    std::vector<float> values = normals(count, seed);
    const std::vector<float> change = normals(count, seed + 100, moved);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += change[i];
    made.add(name, std::move(shape), values);
  };
  with("a.weight", {80, 100}, 8000, 1);
  with("b.weight", {40, 12, 3, 3}, 4320, 2);
  with("b.bias", {40}, 40, 3);
  made.add("embedding.weight", {300, 40}, normals(12'000, 4));
  made.add<std::int64_t>("steps", DType::kI64, {}, {steps});
  return made.sorted();
}

class Delta : public ::testing::Test {
 protected:
  WeightsReport compress(const TensorBundle& weights, WeightsOptions options) {
    options.overwrite = true;
    return compress_weights(weights, path_, options);
  }
  std::vector<std::byte> decoded(const ArtifactReader& artifact, std::size_t i) const {
    return decode_tensor(artifact, i, {.base = base_source(artifact, {&base_, 1})});
  }
  const TempDir dir_;
  const std::filesystem::path path_ = dir_.path() / "delta.gbz";
  const TensorBundle first_ = model(0, 7), next_ = model(0.01f, 8);
  const BaseModel base_{first_};
};

/// At equal error a small change takes less than half of the bytes, and of no change more is lost
/// than the target says.
TEST_F(Delta, TakesLessThanHalfAtEqualError) {
  for (const double error : {1e-2, 1e-3, 1e-5}) {
    const WeightsReport delta = compress(next_, {.max_error = error, .bases = {&base_, 1}});
    double worst = 0;
    EXPECT_TRUE(delta.target_met);
    for (const StoredTensor& tensor : delta.tensors) {
      EXPECT_LE(tensor.change_error, error) << tensor.name;
      EXPECT_EQ(tensor.in_base, tensor.name != "steps");
      worst = std::max(worst, tensor.error);
    }
    EXPECT_GT(*delta.change_error, error / 2);
    EXPECT_LT(worst, error / 1000);
    const WeightsReport whole = compress(next_, {.max_error = worst});
    compress(next_, {.max_error = error, .bases = {&base_, 1}});
    EXPECT_LT(delta.output_bytes, whole.output_bytes / 2) << error;
  }
  const ArtifactReader artifact = ArtifactReader::open(path_);
  EXPECT_EQ(artifact.bases(), std::vector{base_.digest()});
  ASSERT_EQ(artifact.tensors().size(), next_.tensors.size());
  for (std::size_t i = 0; i < next_.tensors.size(); ++i) {
    const TensorEntry& source = next_.tensors[i];
    if (source.name == "embedding.weight" || source.name == "steps") {
      EXPECT_TRUE(std::ranges::equal(decoded(artifact, i), source.bytes)) << source.name;
    }
  }
}

/// Of a change nobody loses more than half, however small it is beside the tensor.
TEST_F(Delta, KeepsWhatChanged) {
  compress(next_, {.max_bytes = 100, .bases = {&base_, 1}});
  const ArtifactReader artifact = ArtifactReader::open(path_);
  for (std::size_t i = 0; i < next_.tensors.size(); ++i) {
    if (!artifact.tensors()[i].on_base) continue;
    const std::vector<std::byte> bytes = decoded(artifact, i);
    std::vector<float> now(bytes.size() / 4), wanted(now.size()), before(now.size());
    std::memcpy(now.data(), bytes.data(), bytes.size());
    std::memcpy(wanted.data(), next_.tensors[i].bytes.data(), bytes.size());
    std::memcpy(before.data(), first_.tensors[i].bytes.data(), bytes.size());
    double error = 0, change = 0;
    for (std::size_t n = 0; n < now.size(); ++n) {
      error += std::pow(now[n] - wanted[n], 2);
      change += std::pow(wanted[n] - before[n], 2);
    }
    EXPECT_LE(error, 0.51 * change) << next_.tensors[i].name;
    EXPECT_GT(change, 0);
  }
}

TEST_F(Delta, UnchangedTensorsCostSomeBytes) {
  const WeightsReport same = compress(first_, {.max_error = 1e-3, .bases = {&base_, 1}});
  EXPECT_LT(same.output_bytes, 110 + 40 * static_cast<std::int64_t>(first_.tensors.size()));
  for (const StoredTensor& tensor : same.tensors) {
    EXPECT_EQ(tensor.stored, "as in the base");
    EXPECT_EQ(tensor.error, 0);
  }
}

TEST_F(Delta, ExactWithoutATarget) {
  const WeightsReport report = compress(next_, {.bases = {&base_, 1}});
  EXPECT_EQ(report.total_error, 0);
  for (const StoredTensor& tensor : report.tensors) EXPECT_EQ(tensor.error, 0) << tensor.name;
}

/// The digest is of the tensors, not of the file that holds them.
TEST_F(Delta, AFileThatExpandsToTheBaseIsTheBase) {
  const auto other = dir_.path() / "base.gbz";
  compress_weights(first_, other, {});
  EXPECT_EQ(BaseModel::open(other).digest(), base_.digest());
  EXPECT_NE(BaseModel(next_).digest(), base_.digest());
}

TEST_F(Delta, WrongBases) {
  compress(next_, {.max_error = 1e-3, .bases = {&base_, 1}});
  const ArtifactReader artifact = ArtifactReader::open(path_);
  EXPECT_EQ(code_of([&] { decode_tensor(artifact, 0); }), Errc::kUsage) << "no base";
  EXPECT_EQ(code_of([&] { base_source(artifact, std::vector{BaseModel(next_)}); }), Errc::kUsage);
  const auto whole = dir_.path() / "whole.gbz";
  compress_weights(next_, whole, {});
  EXPECT_NO_THROW(base_source(ArtifactReader::open(whole), {&base_, 1}))
      << "nothing is taken from it";
  EXPECT_EQ(code_of([&] { BaseModel::open(path_); }), Errc::kNotFound)
      << "a delta whose base is away";

  MadeTensors shape, type, none;
  shape.add("a.weight", {100, 80}, normals(8000, 1));
  type.add<std::int64_t>("steps", DType::kI64, {1}, {7});
  none.add("c.weight", {2}, normals(2, 1));
  for (MadeTensors* made : {&shape, &type, &none}) {
    const BaseModel wrong(made->sorted());
    EXPECT_EQ(code_of([&] {
                compress(next_, {.max_error = 1e-3, .bases = {&wrong, 1}});
              }),
              made == &none ? Errc::kUsage : Errc::kShapeMismatch);
  }
  EXPECT_EQ(
      code_of([&] {
        compress(next_, {.max_error = 1e-3, .measure = ErrorMeasure::kTotal, .bases = {&base_, 1}});
      }),
      Errc::kUsage);
}

/// One tensor stands for two, of which one is in the base as it was and one changed far less.
TEST_F(Delta, TiesHaveTheErrorOfEachChange) {
  const std::vector<float> weight = normals(8000, 1);
  const std::vector<float> change = normals(8000, 2, 0.1f);
  std::vector<float> far = weight, near = weight;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    far[i] += change[i];
    near[i] += change[i] / 100;
  }
  MadeTensors before, after;
  before.add("a", {80, 100}, far);
  before.add("b", {80, 100}, near);
  before.add("c", {80, 100}, weight);
  after.add("a", {80, 100}, weight);
  TensorBundle tied = after.sorted();
  for (const char* name : {"b", "c"}) {
    tied.tensors.push_back(tied.tensors[0]);
    tied.tensors.back().name = name;
  }
  const BaseModel base(before.sorted());
  const WeightsReport report = compress(tied, {.max_error = 1e-2, .bases = {&base, 1}});
  EXPECT_TRUE(report.target_met);
  EXPECT_EQ(report.tensors[1].stored, "tied");
  EXPECT_EQ(report.tensors[2].stored, "as in the base");
  EXPECT_LT(report.tensors[0].change_error, 1e-5);
  EXPECT_LE(report.tensors[1].change_error, 1e-2);
  EXPECT_GT(report.tensors[1].change_error, 1e-3);
}

/// Changes below what float32 tells, and of numbers that the base does not have.
TEST_F(Delta, ChangesThatIntegersCannotHold) {
  std::vector<double> values(1000), tuned(1000);
  std::vector<float> poison = normals(1000, 3), healed = normals(1000, 3);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1 + static_cast<double>(i) / 1000;
    tuned[i] = values[i] + 1e-9 * static_cast<double>(i % 7);
  }
  poison[5] = std::numeric_limits<float>::quiet_NaN();
  MadeTensors before, after;
  before.add<double>("fine", DType::kF64, {20, 50}, values);
  before.add("poison", {20, 50}, poison);
  after.add<double>("fine", DType::kF64, {20, 50}, tuned);
  after.add("poison", {20, 50}, healed);
  const BaseModel base(before.sorted());
  const WeightsReport report = compress(after.sorted(), {.max_error = 1e-2, .bases = {&base, 1}});
  EXPECT_TRUE(report.target_met);
  EXPECT_EQ(report.tensors[0].stored, "exact");
  EXPECT_EQ(report.tensors[1].stored, "integers");
  EXPECT_LE(report.tensors[1].change_error, 1e-2);
}

/// A file whose tensor refers to a base that it does not name, and one that names one for nothing.
TEST_F(Delta, WritersRefuseHalfADelta) {
  ArtifactWriter writer("", "");
  writer.add_base("a", DType::kF32, {3});
  EXPECT_EQ(code_of([&] { writer.encode(); }), Errc::kUsage);
  writer.set_bases({base_.digest()});
  const ArtifactReader reader = ArtifactReader::from_bytes(writer.encode(), "memory");
  EXPECT_EQ(reader.bases(), std::vector{base_.digest()});
  EXPECT_EQ(reader.tensors()[0].kind, TensorKind::kBase);
  EXPECT_EQ(code_of([&] { writer.set_bases({"12"}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] {
              decode_tensor(reader, 0, {.base = base_source(reader, {&base_, 1})});
            }),
            Errc::kCorrupt)
      << "the base has no such tensor";
}

}  // namespace
}  // namespace gbcompress
