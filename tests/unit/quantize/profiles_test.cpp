// Profile small for the matrices where it pays.
#include <gtest/gtest.h>

#include <algorithm>

#include "gbcompress/artifact.h"
#include "gbcompress/weights.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

constexpr std::size_t kCols = 2000;

/// More integers than a file of profile small has: weights without any order, for which no coder
/// knows more than another, and squares of large and of small ones, which contexts find.
MadeTensors model() {
  MadeTensors made;
  made.add("even.weight", {800, 1000}, normals(800 * 1000, 1));
  std::vector<float> squares = normals(1700 * 2000, 2);
  for (std::size_t i = 0; i < squares.size(); ++i)
    squares[i] *= (i / kCols / 16 + i % kCols / 16) % 2 == 0 ? 8.f : 0.2f;
  made.add("squares.weight", {1700, 2000}, squares);
  made.sorted();
  return made;
}

std::int64_t bytes_of(const WeightsReport& report) { return report.output_bytes; }

TEST(Profiles, SmallWhereItPays) {
  const testing::TempDir folder;
  const MadeTensors made = model();
  WeightsOptions options{.max_error = 0.01, .quantizer = Quantizer::kNearest, .threads = 2};
  const WeightsReport lanes = compress_weights(made.bundle, folder / "lanes.gbz", options);
  options.small_where_it_pays = true;
  const WeightsReport mixed = compress_weights(made.bundle, folder / "mixed.gbz", options);
  ASSERT_EQ(mixed.tensors.size(), 2u);
  EXPECT_EQ(lanes.tensors[0].profile, "lanes");
  EXPECT_EQ(lanes.tensors[1].profile, "lanes");
  EXPECT_EQ(mixed.tensors[0].profile, "lanes") << "nothing is saved";
  EXPECT_EQ(mixed.tensors[1].profile, "small");
  EXPECT_LT(mixed.tensors[1].bytes, 0.95 * lanes.tensors[1].bytes);
  const double saved = lanes.tensors[1].bytes - mixed.tensors[1].bytes;
  EXPECT_GT(saved, kSmallBytesASecond * 1700 * 2000 / kSmallIntegersASecond);
  EXPECT_LT(bytes_of(mixed), bytes_of(lanes));
  EXPECT_TRUE(mixed.target_met);
  EXPECT_GT(mixed.tensors[1].seconds, 0);
  options.threads = 1;
  const WeightsReport again = compress_weights(made.bundle, folder / "again.gbz", options);
  EXPECT_EQ(again.identity, mixed.identity) << "threads change no byte";
}

TEST(Profiles, SavedBytesBuyFinerSteps) {
  const testing::TempDir folder;
  const MadeTensors made = model();
  WeightsOptions options{.max_bytes = 1'700'000, .quantizer = Quantizer::kNearest};
  const WeightsReport lanes = compress_weights(made.bundle, folder / "lanes.gbz", options);
  options.small_where_it_pays = true;
  const WeightsReport mixed = compress_weights(made.bundle, folder / "mixed.gbz", options);
  EXPECT_TRUE(mixed.target_met);
  EXPECT_LE(bytes_of(mixed), *options.max_bytes);
  EXPECT_EQ(mixed.tensors[1].profile, "small");
  EXPECT_LT(mixed.total_error, lanes.total_error);
}

TEST(Profiles, SmallFilesHaveOneStream) {
  const testing::TempDir folder;
  MadeTensors made;
  made.add("w.weight", {64, 64}, normals(64 * 64, 1));
  const WeightsReport report = compress_weights(made.bundle, folder / "m.gbz",
                                                {.max_error = 0.01, .small_where_it_pays = true});
  EXPECT_EQ(report.tensors[0].profile, "small");
  EXPECT_EQ(ArtifactReader::open(folder / "m.gbz").profile(), CodecProfile::kSmall);
}

}  // namespace
}  // namespace gbcompress
