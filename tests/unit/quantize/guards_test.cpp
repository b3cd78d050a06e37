/// What no file without training may do to a row, an outlier, a zero or a magnitude.
#include <gtest/gtest.h>

#include <cmath>

#include "artifact/sections/elements.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/weights.h"
#include "moments.h"
#include "quantize/allocation/bit_allocation.h"
#include "quantize/encode_weights.h"
#include "quantize/feedback/feedback.h"
#include "quantize/feedback/trellis_feedback.h"
#include "quantize/matrix.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::moments;
using testing::normals;
using testing::TempDir;

constexpr Quantizer kQuantizers[] = {Quantizer::kNearest, Quantizer::kTrellis};

/// Rows whose sizes fall evenly from 1 to `least`.
std::vector<float> falling(std::int64_t rows, std::int64_t cols, double least, std::uint64_t seed) {
  std::vector<float> values = normals(rows * cols, seed);
  for (std::int64_t i = 0; i < rows * cols; ++i)
    values[static_cast<std::size_t>(i)] *= static_cast<float>(
        std::pow(least, static_cast<double>(i / cols) / static_cast<double>(rows - 1)));
  return values;
}

struct MadeMatrix {
  std::string name;
  std::vector<std::int64_t> shape;
  double bits = 0;  ///< a value, at most
  std::vector<float> values;
};

/// Every n-th value becomes 0.
void add_zeros(std::vector<float>& values, std::size_t n) {
  for (std::size_t i = 0; i < values.size(); i += n) values[i] = 0;
}

std::size_t moved_zeros(const std::vector<float>& values, const std::vector<float>& stored) {
  std::size_t moved = 0;
  for (std::size_t i = 0; i < values.size(); ++i) moved += values[i] == 0 && stored[i] != 0;
  return moved;
}

std::vector<float> decoded(const EncodedWeights& encoded, const std::string& name) {
  const ArtifactReader artifact = ArtifactReader::from_bytes(encoded.file, "the file");
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    if (artifact.tensors()[i].name != name) continue;
    const auto bytes = decode_tensor(artifact, i);
    const DType dtype = artifact.tensors()[i].dtype;
    std::vector<float> values(bytes.size() * 8 / static_cast<std::size_t>(dtype_bits(dtype)));
    floats_of(bytes, dtype, values);
    return values;
  }
  throw std::runtime_error("there is no " + name);
}

TEST(RowSize, IsThatOfTheValuesButOutliers) {
  std::vector<float> row = normals(400, 1, 0.02f);
  const double rms = size_of_row(row).rms;
  EXPECT_NEAR(rms, 0.02, 0.003);
  EXPECT_NEAR(rms * rms * 400, size_of_row(row).squares, 1e-12);
  row[7] = 200;
  row[8] = 1.3f;  // 65 times the others, though little beside the largest
  EXPECT_NEAR(size_of_row(row).rms, rms, 0.001);
  EXPECT_EQ(size_of_row(row).largest, 200);
  row[7] = row[9] = -200;  // two of one size
  EXPECT_NEAR(size_of_row(row).rms, rms, 0.001);
  row[7] = row[9] = 0;
  row[8] = 0.3f;  // 15 times the others
  EXPECT_GT(size_of_row(row).rms, 1.1 * rms);
  std::vector<float> single(400);
  single[3] = 2;
  EXPECT_NEAR(size_of_row(single).rms, 0.1, 1e-9);  // the others are 0
  EXPECT_EQ(size_of_row(std::vector<float>(9)).rms, 0);
}

TEST(Guards, NoRowLosesMoreThanHalfAtAnyStep) {
  for (const double least : {1e-3, 1e-6})
    for (const Quantizer quantizer : kQuantizers)
      for (const bool lanes : {false, true})
        for (const bool apart : {false, true}) {
          IntegerGrid grid{.rows = 37, .cols = 64, .lanes = lanes};
          const auto values = falling(grid.rows, grid.cols, least, 3);
          const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), apart);
          ASSERT_TRUE(facts.fits);
          const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
          for (const int step : {-64, -16, 0, 40, 200}) {
            const auto chosen = matrix.choose(step, quantizer, 1);
            const auto stored = coded_floats(chosen.values);
            EXPECT_LE(worst_row(grid, values, stored), kMostRelativeError * 1.0001)
                << least << ' ' << step << ' ' << lanes << ' ' << apart;
          }
        }
}

TEST(Guards, BlocksOfColumnsAreRowsWhereTheirSizesDiffer) {
  const IntegerGrid grid{.rows = 20, .cols = 96};
  auto values = normals(grid.size(), 4);
  EXPECT_EQ(divided(grid, values).cols, 96);
  values[5] = 3000;  // an outlier
  EXPECT_EQ(divided(grid, values).cols, 96);
  values[5] = 1;
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 96 >= 32 && i % 96 < 64) values[i] *= 1e-4f;
  EXPECT_EQ(divided(grid, values).cols, 32);
  EXPECT_EQ(divided(grid, values).rows, 60);
  EXPECT_EQ(divided({1, grid.size(), 0}, values).cols, grid.size());
  MadeTensors made;
  made.add("c.weight", {20, 96}, values);
  const TempDir folder;
  for (const WeightsOptions& options :
       {WeightsOptions{.max_bytes = grid.size() / 2}, WeightsOptions{.max_error = 0.1}}) {
    const auto stored = decoded(encode_weights(made.bundle, folder.path(), options), "c.weight");
    EXPECT_LE(worst_row({60, 32, 0}, values, stored), 0.5001);
  }
}

TEST(Guards, AnOutlierDoesNotSetTheStepOfItsRow) {
  const IntegerGrid grid{.rows = 64, .cols = 300};
  auto values = normals(grid.size(), 5, 0.02f);
  values[20 * 300 + 11] = 150;
  values[21 * 300 + 200] = -90;
  values[21 * 300 + 201] = 90;
  const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true);
  EXPECT_NEAR(facts.rms, 0.02, 0.002);
  const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
  for (const Quantizer quantizer : kQuantizers) {
    const auto stored = coded_floats(matrix.choose(nearest_step(0.01f), quantizer, 1).values);
    EXPECT_NEAR(stored[20 * 300 + 11], 150, 1.5);
    EXPECT_NEAR(stored[21 * 300 + 200], -90, 0.9);
    EXPECT_LT(worst_row(grid, values, stored), 0.06);
  }
  values[0] = 3e5f;  // no integer is so large
  EXPECT_FALSE(matrix_facts(grid, sizes_of_rows(grid, values), true).fits);
}

TEST(Guards, ZerosStayZeros) {
  for (const bool lanes : {false, true}) {
    const IntegerGrid grid{.rows = 48, .cols = 128, .dependent = true, .lanes = lanes};
    auto values = normals(grid.size(), 6);
    add_zeros(values, 3);
    std::fill_n(values.begin() + 10 * 128, 5 * 128, 0.f);
    const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true);
    const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
    for (const Quantizer quantizer : kQuantizers)
      for (const int step : {-64, -16, 8})
        EXPECT_EQ(moved_zeros(values, coded_floats(matrix.choose(step, quantizer, 1).values)), 0u);
    const auto order = column_order({&grid, 1});
    const SecondOrder model{std::make_shared<const UpperFactor>(moments(128, 140, 2), 128, 0.02),
                            nullptr};
    const Rounding rounding{.step = -16};
    CodedValues coded{.grid = grid, .step = rounding.step};
    coded.integers = round_dependent(grid, values, model, *order, rounding).integers;
    EXPECT_EQ(moved_zeros(values, coded_floats(coded)), 0u);
  }
  const IntegerGrid grid{.rows = 24, .cols = 40};
  auto values = normals(grid.size(), 7);
  add_zeros(values, 4);
  SecondOrder model;
  model.columns = std::make_shared<const UpperFactor>(moments(40, 60, 3), 40, 0.02);
  for (const bool both_sides : {false, true}) {
    if (both_sides) model.rows = std::make_shared<const UpperFactor>(moments(24, 60, 4), 24, 0.02);
    const auto coded = round_with_feedback(grid, values, model, {.step = 0});
    EXPECT_EQ(moved_zeros(values, coded_floats(coded)), 0u) << both_sides;
  }
}

TEST(Guards, EveryMagnitudeOfFloat32HasTheSameErrors) {
  const IntegerGrid grid{.rows = 32, .cols = 96};
  for (const Quantizer quantizer : kQuantizers) {
    double usual = 0;
    for (const float size : {0.05f, 1e-30f, 1e-41f, 1e30f, 1e37f}) {
      const auto values = normals(grid.size(), 8, size);
      const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true);
      const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
      const auto chosen = matrix.choose(nearest_step(size * 0.2f), quantizer, 1);
      const double error = worst_row(grid, values, coded_floats(chosen.values));
      if (usual == 0) usual = error;
      EXPECT_NEAR(error / usual, 1, 0.2) << size;
    }
  }
}

TEST(Guards, OneTensorMayHoldManyMagnitudes) {
  const IntegerGrid grid{.rows = 40, .cols = 64};
  auto values = normals(grid.size(), 9, 1e30f);
  for (std::size_t i = 0; i < values.size() / 2; ++i) values[i] *= 1e-30f;
  for (std::size_t i = 0; i < values.size() / 4; ++i) values[i] *= 1e-38f;
  for (const bool apart : {false, true})
    for (const Quantizer quantizer : kQuantizers) {
      const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), apart);
      const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
      const auto chosen = matrix.choose(nearest_step(2e29f), quantizer, 1);
      EXPECT_LE(worst_row(grid, values, coded_floats(chosen.values)), 0.51);
    }
}

/// The largest error of a matrix of a stack beside that of the same matrices one by one.
TEST(Guards, MatricesOfAStackAreLikeMatricesApart) {
  constexpr std::int64_t kCount = 6, kRows = 40, kCols = 56;
  MadeTensors stack, apart;
  std::vector<float> all;
  for (std::int64_t e = 0; e < kCount; ++e) {
    auto one = normals(kRows * kCols, static_cast<std::uint64_t>(20 + e),
                       static_cast<float>(std::pow(10.0, -0.6 * static_cast<double>(e))));
    apart.add("e" + std::to_string(e) + ".weight", {kRows, kCols}, one);
    all.insert(all.end(), one.begin(), one.end());
  }
  stack.add("block.stacked", {kCount, kRows, kCols}, all);
  const TempDir folder;
  for (const Quantizer quantizer : kQuantizers) {
    const WeightsOptions options{.max_bytes = kCount * kRows * kCols / 2, .quantizer = quantizer};
    const auto together =
        decoded(encode_weights(stack.bundle, folder.path(), options), "block.stacked");
    const EncodedWeights others = encode_weights(apart.sorted(), folder.path(), options);
    for (std::int64_t e = 0; e < kCount; ++e) {
      const auto size = static_cast<std::size_t>(kRows * kCols);
      const auto first = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(e) * size);
      const std::vector<float> own(all.begin() + first, all.begin() + first + kRows * kCols);
      const std::vector<float> got(together.begin() + first,
                                   together.begin() + first + kRows * kCols);
      const double beside =
          relative_error(own, decoded(others, "e" + std::to_string(e) + ".weight"));
      EXPECT_LT(relative_error(own, got), 1.3 * beside) << e;
    }
  }
}

/// The most that a row's outputs lose of their squares, for inputs of these moments.
double worst_outputs(std::int64_t cols, const std::vector<double>& moment,
                     const std::vector<float>& values, const std::vector<float>& stored) {
  constexpr double kDamp = 0.02;
  const auto n = static_cast<std::size_t>(cols);
  double mean = 0, worst = 0;
  for (std::size_t j = 0; j < n; ++j) mean += moment[j * n + j] / static_cast<double>(n);
  const auto cost = [&](auto&& number) {
    double sum = 0;
    for (std::size_t j = 0; j < n; ++j)
      for (std::size_t k = 0; k < n; ++k)
        sum += number(j) * (moment[j * n + k] / mean + (j == k ? kDamp : 0)) * number(k);
    return sum;
  };
  for (std::size_t first = 0; first < values.size(); first += n) {
    const double squares =
        cost([&](std::size_t j) { return static_cast<double>(values[first + j]); });
    const double error = cost([&](std::size_t j) {
      return static_cast<double>(values[first + j]) - static_cast<double>(stored[first + j]);
    });
    if (error > 0) worst = std::max(worst, error / squares);
  }
  return worst;
}

TEST(Guards, RowsAndZerosUnderStatistics) {
  constexpr std::int64_t kRows = 48, kCols = 64;
  auto values = falling(kRows, kCols, 1e-3, 11);
  add_zeros(values, 5);
  MadeTensors made;
  made.add("l.weight", {kRows, kCols}, values);
  made.add("l.bias", {kRows}, normals(kRows, 12, 0.1f));
  made.sorted();
  TensorStatistics own;
  const std::vector<double> moment = moments(kCols, 2 * kCols, 13);
  for (const double value : moment) own.input_moment.push_back(static_cast<float>(value));
  Statistics statistics;
  statistics.tensors["l.weight"] = own;
  const TempDir folder;
  for (const Quantizer quantizer : kQuantizers)
    for (const std::int64_t bytes : {kRows * kCols / 2, kRows * kCols / 4}) {
      const EncodedWeights encoded =
          encode_weights(made.bundle, folder.path(),
                         {.max_bytes = bytes, .quantizer = quantizer, .statistics = &statistics});
      const auto stored = decoded(encoded, "l.weight");
      EXPECT_LE(worst_outputs(kCols, moment, values, stored), 1 + 1e-4) << bytes;
      EXPECT_EQ(moved_zeros(values, stored), 0u);
    }
}

TEST(Guards, BFloat16MeetsEveryErrorOrIsExact) {
  MadeTensors made;
  const auto values = elements_of(normals(96 * 120, 14, 0.05f), DType::kBF16);
  std::vector<std::uint16_t> raw(values.size() / 2);
  std::memcpy(raw.data(), values.data(), values.size());
  made.add("q.weight", DType::kBF16, {96, 120}, raw);
  const TempDir folder;
  std::int64_t before = 0;
  for (const double most : {1e-2, 1e-4, 4e-5, 1e-5, 3e-6, 1e-6, 1e-9}) {
    const EncodedWeights encoded = encode_weights(made.bundle, folder.path(), {.max_error = most});
    EXPECT_TRUE(encoded.report.target_met) << most;
    EXPECT_LE(encoded.report.tensors[0].error, most);
    EXPECT_GE(encoded.report.output_bytes, before) << most;
    before = encoded.report.output_bytes;
  }
}

TEST(Guards, TinyFilesGrowWithWhatIsAsked) {
  MadeTensors made;
  made.add("conv.weight", {4, 3, 2, 3, 2}, normals(144, 15, 0.12f));
  const TempDir folder;
  std::int64_t before = 0;
  for (const double most : {0.5, 0.4, 0.3, 0.2, 0.1}) {
    const auto encoded = encode_weights(made.bundle, folder.path(), {.max_error = most});
    EXPECT_GE(encoded.report.output_bytes, before) << most;
    before = encoded.report.output_bytes;
  }
  const auto smallest = encode_weights(made.bundle, folder.path(), {.max_bytes = 20});
  EXPECT_FALSE(smallest.report.target_met);
  EXPECT_LE(smallest.report.output_bytes,
            encode_weights(made.bundle, folder.path(), {.max_error = 0.49}).report.output_bytes);
  EXPECT_LE(smallest.report.tensors[0].error, 0.5);
  char worst[20];
  std::snprintf(worst, sizeof worst, "%.2g", smallest.report.tensors[0].error);
  EXPECT_TRUE(smallest.report.target_note.ends_with(worst)) << smallest.report.target_note;
}

TEST(Guards, NoColumnIsWorseThanZeros) {
  const std::int64_t rows = 96, cols = 80;
  std::vector<float> values = normals(rows * cols, 31);
  for (std::int64_t i = 0; i < rows * cols; ++i)
    values[static_cast<std::size_t>(i)] *=
        static_cast<float>(std::pow(1e-3, static_cast<double>(i * 37 % cols) / 79));
  const IntegerGrid grid{rows, cols, 0};
  const MatrixFacts facts = matrix_facts(grid, sizes_of_rows(grid, values), true);
  const StepMatrix matrix(grid, values, facts.row_steps, facts.sizes);
  for (const Quantizer quantizer : kQuantizers)
    for (const double share : {0.25, 0.5, 1.0}) {
      const int step = nearest_step(static_cast<float>(share * facts.rms));
      const auto chosen = matrix.choose(step, quantizer, 1);
      const std::vector<float> stored = coded_floats(chosen.values);
      double error = 0, all = 0;
      for (std::int64_t j = 0; j < cols; ++j) {
        double lost = 0, squares = 0;
        for (std::int64_t i = j; i < rows * cols; i += cols) {
          const auto at = static_cast<std::size_t>(i);
          const double off = static_cast<double>(stored[at] - values[at]);
          lost += off * off;
          squares += static_cast<double>(values[at]) * static_cast<double>(values[at]);
        }
        EXPECT_LE(lost, squares * (1 + 1e-6)) << j << " " << share;
        error += lost;
        all += squares;
      }
      EXPECT_NEAR(chosen.relative_error, error / all, 1e-4 * error / all);
    }
}

/// A bank of waves under a window, sines of positions with noise, lines that drift along the rows.
std::vector<MadeMatrix> smooth_matrices() {
  constexpr double kPi = 3.14159265358979;
  const std::vector<float> noise = normals(256 * 64, 41, 0.02f), drift = normals(256 * 64, 42);
  std::vector<MadeMatrix> made{{"bank", {130, 1, 128}, 0.4, {}},
                               {"positions", {256, 64}, 1, noise},
                               {"drift", {256, 64}, 2, drift}};
  for (int k = 0; k < 130; ++k)
    for (int i = 0; i < 128; ++i) {
      const double angle = 2 * kPi * (k % 65) * i / 128;
      const double window = std::pow(std::sin(kPi * i / 128), 2);
      made[0].values.push_back(
          static_cast<float>(window * (k < 65 ? std::cos(angle) : std::sin(angle))));
    }
  for (std::size_t i = 0; i < noise.size(); ++i) {
    const double angle =
        static_cast<double>(i / 64) / std::pow(1000, static_cast<double>(i % 32) / 32);
    made[1].values[i] += static_cast<float>(i % 64 < 32 ? std::sin(angle) : std::cos(angle));
    if (i >= 64) made[2].values[i] = made[2].values[i - 64] + 0.05f * drift[i];
  }
  return made;
}

TEST(Guards, CosinesLoseWhatTheirValuesMay) {
  const TempDir folder;
  for (const MadeMatrix& smooth : smooth_matrices()) {
    MadeTensors made;
    made.add("a.weight", {128, 128}, normals(128 * 128, 43));
    made.add(smooth.name, smooth.shape, smooth.values);
    const std::int64_t all = 4 * (128 * 128 + static_cast<std::int64_t>(smooth.values.size()));
    const EncodedWeights encoded =
        encode_weights(made.bundle, folder.path(), {.max_bytes = all / 16});
    ASSERT_TRUE(encoded.report.target_met) << smooth.name;
    const auto stored = decoded(encoded, smooth.name);
    const std::int64_t rows = smooth.shape[0], cols = smooth.shape.back();
    EXPECT_LE(worst_row({rows, cols, 0}, smooth.values, stored), kMostRelativeError) << smooth.name;
    // A step for each block of cosines, or one by the smaller cosines of a row, takes twice as
    // many.
    EXPECT_LT(encoded.report.tensors[1].bytes, static_cast<double>(rows * cols) / 8 * smooth.bits)
        << smooth.name;
  }
}

}  // namespace
}  // namespace gbcompress
