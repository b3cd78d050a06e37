#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "artifact/sections/elements.h"
#include "format/safetensors/safetensors.h"
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

/// What killed models: layers of very different sizes, dead channels, a table of large numbers,
/// counters, a mask, a running mean of nearly nothing.
MadeTensors hard_model() {
  MadeTensors made;
  made.add("a.weight", {64, 96}, normals(64 * 96, 1, 100));
  made.add("b.weight", {64, 64}, normals(64 * 64, 2, 0.01f));
  auto depthwise = normals(48 * 9, 3, 0.3f);
  for (std::size_t i = 0; i < 90; ++i) depthwise[i] *= 1e-9f;  // dead channels
  made.add("conv.weight", {48, 1, 3, 3}, depthwise);
  made.add("bn.running_mean", {48}, normals(48, 4, 1e-6f));
  auto variances = normals(48, 5);
  for (float& v : variances) v = std::exp(4 * v);
  made.add("bn.running_var", {48}, variances);
  made.add("bn.weight", {48}, std::vector<float>(48, 1));
  std::vector<float> table(360);
  for (int i = 0; i < 360; ++i)
    table[static_cast<std::size_t>(i)] = 1e5f + 20.f * static_cast<float>(i * i % 977);
  made.add("cent_table", {360}, table);
  made.add<std::int64_t>("bn.num_batches_tracked", DType::kI64, {}, {123456});
  std::vector<float> mask(64 * 64, 0);
  mask[5] = -std::numeric_limits<float>::infinity();
  made.add("mask", {64, 64}, mask);
  std::vector<std::int8_t> whole(3000);
  for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = static_cast<std::int8_t>(i * i % 61);
  made.add<std::int8_t>("packed", DType::kI8, {30, 100}, whole);
  made.bundle.tensors.push_back(made.bundle.tensors[0]);
  made.bundle.tensors.back().name = "z.tied";
  made.sorted();
  return made;
}

std::int64_t input_bytes(const TensorBundle& bundle) {
  std::int64_t sum = 0;
  for (const TensorEntry& tensor : bundle.tensors)
    sum += static_cast<std::int64_t>(tensor.bytes.size());
  return sum;
}

const StoredTensor& named(const WeightsReport& report, const std::string& name) {
  for (const StoredTensor& tensor : report.tensors)
    if (tensor.name == name) return tensor;
  throw std::runtime_error("no tensor " + name);
}

/// What the report says of errors, found again from the file.
void expect_true(const WeightsReport& report, const std::filesystem::path& path,
                 const TensorBundle& bundle) {
  const ArtifactReader artifact = ArtifactReader::open(path);
  EXPECT_EQ(report.output_bytes, static_cast<std::int64_t>(std::filesystem::file_size(path)));
  ASSERT_EQ(artifact.tensors().size(), bundle.tensors.size());
  double bytes = 0;
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    const TensorEntry& source = bundle.tensors[i];
    const StoredTensor& stored = report.tensors[i];
    ASSERT_EQ(artifact.tensors()[i].name, source.name);
    bytes += stored.bytes;
    if (stored.stored == "tied") continue;
    const std::vector<std::byte> decoded = decode_tensor(artifact, i);
    if (stored.error == 0) {
      EXPECT_TRUE(
          std::equal(decoded.begin(), decoded.end(), source.bytes.begin(), source.bytes.end()))
          << source.name;
      continue;
    }
    std::vector<float> before(decoded.size() / 4), after(before.size());
    ASSERT_EQ(source.dtype, DType::kF32);
    floats_of(source.bytes, source.dtype, before);
    floats_of(decoded, source.dtype, after);
    double error = 0, squares = 0;
    for (std::size_t n = 0; n < before.size(); ++n) {
      error += std::pow(static_cast<double>(before[n]) - static_cast<double>(after[n]), 2);
      squares += std::pow(static_cast<double>(before[n]), 2);
    }
    EXPECT_NEAR(stored.error, error / squares, 1e-9 + 1e-6 * stored.error) << source.name;
  }
  EXPECT_LE(bytes, static_cast<double>(report.output_bytes));
}

TEST(CompressWeights, NoTensorDiesWhateverSizeIsAsked) {
  const MadeTensors made = hard_model();
  const TempDir folder;
  for (const double ratio : {4.0, 8.0, 16.0, 1000.0}) {
    SCOPED_TRACE(ratio);
    WeightsOptions options{.overwrite = true, .threads = 1};
    options.max_bytes =
        static_cast<std::int64_t>(static_cast<double>(input_bytes(made.bundle)) / ratio);
    const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", options);
    expect_true(report, folder / "m.gbz", made.bundle);
    for (const StoredTensor& tensor : report.tensors) EXPECT_LE(tensor.error, 0.5) << tensor.name;
    for (const char* exact :
         {"bn.weight", "cent_table", "bn.num_batches_tracked", "mask", "packed"})
      EXPECT_EQ(named(report, exact).error, 0) << exact;
    for (const char* vector : {"bn.running_mean", "bn.running_var"})
      EXPECT_LT(named(report, vector).error, 1e-5) << vector;
    EXPECT_EQ(named(report, "z.tied").stored, "tied");
    EXPECT_EQ(named(report, "bn.weight").stored, "constant");
    EXPECT_EQ(report.target_met, ratio < 100);
    EXPECT_EQ(report.target_note.empty(), ratio < 100);
    if (ratio > 4 && ratio < 100) {
      EXPECT_GE(report.output_bytes, *options.max_bytes * 97 / 100);
    }
    // 10,000 times as large: 100 times less of it is lost by the rule, 10^8 times with one step.
    const double a = named(report, "a.weight").error, b = named(report, "b.weight").error;
    EXPECT_LT(std::max(a, b) / std::min(a, b), 150);
  }
}

TEST(CompressWeights, AnErrorHoldsForEveryTensor) {
  const MadeTensors made = hard_model();
  const TempDir folder;
  std::int64_t before = 0;
  for (const double error : {1e-1, 1e-3, 1e-6, 1e-10}) {
    SCOPED_TRACE(error);
    const WeightsOptions options{.max_error = error, .overwrite = true, .threads = 2};
    const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", options);
    expect_true(report, folder / "m.gbz", made.bundle);
    EXPECT_TRUE(report.target_met);
    for (const StoredTensor& tensor : report.tensors) EXPECT_LE(tensor.error, error) << tensor.name;
    // Not much less than may be lost: a sixteenth of an octave is 9 %.
    EXPECT_GT(named(report, "a.weight").error, error * 0.85);
    EXPECT_GT(report.output_bytes, before);
    before = report.output_bytes;
  }
}

TEST(CompressWeights, ATotalErrorIsOfAllTensorsTogether) {
  MadeTensors made;
  made.add("a.weight", {64, 96}, normals(64 * 96, 1, 1));
  made.add("b.weight", {64, 64}, normals(64 * 64, 2, 0.3f));
  made.sorted();
  const TempDir folder;
  const WeightsOptions options{.max_error = 0.002, .measure = ErrorMeasure::kTotal, .threads = 1};
  const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", options);
  EXPECT_TRUE(report.target_met);
  EXPECT_LE(report.total_error, 0.002);
  EXPECT_GT(report.total_error, 0.0019);
  EXPECT_NEAR(named(report, "b.weight").error / named(report, "a.weight").error, 1 / 0.09, 4);
}

TEST(CompressWeights, WithoutATargetEverythingIsExact) {
  const MadeTensors made = hard_model();
  const TempDir folder;
  const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", {});
  expect_true(report, folder / "m.gbz", made.bundle);
  for (const StoredTensor& tensor : report.tensors) EXPECT_EQ(tensor.error, 0) << tensor.name;
}

TEST(CompressWeights, NamedTensorsStayExact) {
  const MadeTensors made = hard_model();
  const TempDir folder;
  const WeightsOptions options{.max_error = 0.01, .exact = {"b.*"}};
  const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", options);
  EXPECT_EQ(named(report, "b.weight").error, 0);
  EXPECT_GT(named(report, "a.weight").error, 0);
}

TEST(CompressWeights, WhatBelongsToAKeptTrainingStaysExact) {
  MadeTensors made = hard_model();
  for (TensorEntry& entry : made.bundle.tensors) entry.exact = entry.name == "b.weight";
  const TempDir folder;
  const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", {.max_error = 0.01});
  EXPECT_EQ(named(report, "b.weight").error, 0);
  EXPECT_GT(named(report, "a.weight").error, 0);
}

TEST(CompressWeights, TheBytesDoNotDependOnThreads) {
  MadeTensors made;
  // Beyond four million numbers: the profile lanes, with sections that wait on the disk.
  for (int i = 0; i < 5; ++i)
    made.add("w" + std::to_string(i), {1000, 900}, normals(900'000, static_cast<std::uint64_t>(i)));
  made.add("bias", {1000}, normals(1000, 9));
  made.sorted();
  const TempDir folder;
  std::string identity;
  for (const int threads : {1, 2, 4}) {
    WeightsOptions options{.max_bytes = 1'500'000, .overwrite = true, .threads = threads};
    const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz", options);
    EXPECT_TRUE(report.target_met);
    EXPECT_GE(report.output_bytes, 1'470'000);
    if (identity.empty()) identity = report.identity;
    EXPECT_EQ(report.identity, identity) << threads;
  }
  EXPECT_EQ(folder.files(), 1u);
}

TEST(CompressWeights, HalvesAndDoublesComeBackInTheirType) {
  MadeTensors made;
  const auto values = normals(5000, 11, 0.1f);
  std::vector<double> doubles(values.begin(), values.end());
  made.add<double>("d", DType::kF64, {50, 100}, doubles);
  for (const DType dtype : {DType::kF16, DType::kBF16}) {
    auto bytes = std::make_shared<std::vector<std::byte>>(elements_of(values, dtype));
    made.bundle.tensors.push_back({std::string(dtype_name(dtype)), dtype, {50, 100}, *bytes});
    made.bundle.owners.push_back(bytes);
  }
  made.sorted();
  const TempDir folder;
  const WeightsReport report =
      compress_weights(made.bundle, folder / "m.gbz", {.max_error = 0.001});
  EXPECT_TRUE(report.target_met);
  for (const StoredTensor& tensor : report.tensors) {
    EXPECT_GT(tensor.error, 0.0008) << tensor.name;
    EXPECT_LT(tensor.bits(), 5.6) << tensor.name;
  }
}

TEST(CompressWeights, NoFileThatIsReadIsReplaced) {
  namespace fs = std::filesystem;
  TempDir dir;
  const MadeTensors made = hard_model();
  const fs::path model = dir / "a.safetensors", packed = dir / "a.gbz", other = dir / "b.gbz";
  write_safetensors(model, made.bundle.tensors, {}, false);
  const TensorBundle weights = open_tensors(model);
  WeightsOptions options{.overwrite = true};
  const std::string sentence = "name another output";
  GBC_EXPECT_ERROR(compress_weights(weights, model, options), Errc::kUsage, sentence);
  compress_weights(weights, packed, options);
  fs::create_hard_link(packed, dir / "hard");
  fs::create_symlink(packed, dir / "symbolic");
  const ArtifactReader artifact = ArtifactReader::open(packed);
  for (const char* name : {"a.gbz", "hard", "symbolic"})
    GBC_EXPECT_ERROR(decode_to_file(artifact, dir / name, true), Errc::kUsage, sentence);
  const BaseModel base = BaseModel::open(packed);
  options.bases = {&base, 1};
  GBC_EXPECT_ERROR(compress_weights(weights, dir / "hard", options), Errc::kUsage, sentence);
  compress_weights(weights, other, options);
  EXPECT_EQ(ArtifactReader::open(packed).identity(), artifact.identity());
}

TEST(CompressWeights, RefusesWhatContradictsItself) {
  const MadeTensors made = hard_model();
  const TempDir folder;
  const auto code = [&](const WeightsOptions& options) {
    return code_of([&] { compress_weights(made.bundle, folder / "m.gbz", options); });
  };
  EXPECT_EQ(code({.max_bytes = 100, .max_error = 0.1}), Errc::kUsage);
  EXPECT_EQ(code({.max_bytes = 0}), Errc::kUsage);
  for (const double error : {0.0, 1.0, -1.0, std::nan("")})
    EXPECT_EQ(code({.max_error = error}), Errc::kUsage);
  testing::put_file(folder / "m.gbz", "here");
  EXPECT_EQ(code({.max_error = 0.1}), Errc::kExists);
  EXPECT_EQ(folder.files(), 1u);
}

TEST(StoredTensors, TellWhatWasLost) {
  const TempDir folder;
  MadeTensors made;
  made.add("a", {64, 64}, normals(64 * 64, 1));
  made.add("b", {64, 64}, normals(64 * 64, 2));
  made.sorted();
  compress_weights(made.bundle, folder / "m.gbz", {});
  const ArtifactReader artifact = ArtifactReader::open(folder / "m.gbz");
  for (const StoredTensor& tensor : stored_tensors(artifact)) EXPECT_FALSE(tensor.compared);
  std::vector<StoredTensor> same = compare_with_source(artifact, made.bundle);
  EXPECT_EQ(lost_energy_warning(same), "");

  MadeTensors other;  // twice as large, and another name
  auto twice = normals(64 * 64, 1);
  for (float& value : twice) value *= 2;
  other.add("a", {64, 64}, twice);
  other.add("c", {64, 64}, normals(64 * 64, 2));
  other.sorted();
  const std::vector<StoredTensor> lost = compare_with_source(artifact, other.bundle);
  EXPECT_TRUE(lost[0].compared);
  EXPECT_NEAR(lost[0].error, 0.25, 1e-6);
  EXPECT_NEAR(lost[0].energy, 0.25, 1e-6);
  EXPECT_FALSE(lost[1].compared);
  EXPECT_EQ(lost_energy_warning(lost),
            "warning: 1 of 2 tensors keep less than half of their energy (sum of squares): a "
            "keeps 25 %");
  const auto asked = compare_with_source(artifact, other.bundle, [&](std::size_t) {
    return std::vector<std::byte>(64 * 64 * 4);  // all zeros
  });
  EXPECT_EQ(asked[0].error, 1);
  EXPECT_EQ(asked[0].energy, 0);
}

TEST(CompressWeights, KeepsTensorsWithNaNExactlyAndNamesThem) {
  TempDir dir;
  MadeTensors made = hard_model();
  auto values = normals(64 * 64, 20);
  values[1000] = NAN;
  made.add("broken.weight", {64, 64}, values);
  made.sorted();
  for (const bool exact : {false, true}) {
    WeightsOptions options;
    options.overwrite = true;
    if (!exact) options.max_bytes = 60'000;
    const WeightsReport report = compress_weights(made.bundle, dir / "x.gbz", options);
    ASSERT_EQ(report.notes.size(), 1U);
    EXPECT_NE(report.notes[0].find("broken.weight (1 value, row 15)"), std::string::npos)
        << report.notes[0];
    const ArtifactReader file = ArtifactReader::open(dir / "x.gbz");
    for (std::size_t i = 0; i < file.tensors().size(); ++i) {
      if (file.tensors()[i].name != "broken.weight") continue;
      const std::vector<std::byte> bytes = decode_tensor(file, i);
      EXPECT_TRUE(std::ranges::equal(bytes, made.bundle.find("broken.weight")->bytes));
    }
  }
  for (TensorEntry& entry : made.bundle.tensors)
    if (entry.name == "broken.weight") entry.exact = true;  // kept with everything else
  WeightsOptions options;
  options.overwrite = true;
  EXPECT_TRUE(compress_weights(made.bundle, dir / "x.gbz", options).notes.empty());
}

}  // namespace
}  // namespace gbcompress
