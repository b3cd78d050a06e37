// Files with layers: a draft and the exact rest, whole, cut and damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/file.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "support/code_of.h"
#include "support/files.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;
using testing::MadeTensors;
using testing::normals;
using testing::TempDir;

std::vector<std::uint16_t> layered_halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> result;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    result.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return result;
}

/// Tensors of every way to store them: quantized, tied, constant, with NaN, integers, empty ones.
TensorBundle layered_model() {
  MadeTensors made;
  const std::vector<float> values = normals(40'000, 1, 0.02f);
  made.add("full", {200, 200}, values);
  made.add<std::uint16_t>("half", DType::kBF16, {160, 250}, layered_halves(values));
  made.add<std::uint16_t>("half.again", DType::kBF16, {160, 250}, layered_halves(values));
  std::vector<float> odd = normals(5000, 2);
  odd[7] = std::numeric_limits<float>::quiet_NaN();
  odd[8] = -0.0f;
  made.add("odd", {50, 100}, odd);
  made.add("norm", {300}, normals(300, 3));
  made.add("ones", {300}, std::vector<float>(300, 1));
  made.add<std::int64_t>("steps", DType::kI64, {}, {12});
  made.add<std::uint8_t>("none", DType::kU8, {0, 3}, {});
  return made.sorted();
}

class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    report_ = compress_layers(layered_model(), file_, {.max_bytes = 60'000});
    bytes_ = read_file(file_, 1 << 22);
    draft_bytes_ = static_cast<std::size_t>(report_.draft.output_bytes);
  }
  std::string refusal(const Bytes& bytes, Layer layer = Layer::kExact) {
    try {
      ArtifactReader::from_bytes(bytes, "m.gbz", {}, DigestCheck::kAtOnce, layer);
    } catch (const Error& error) {
      return std::string(errc_name(error.code())) + ": " + error.what();
    }
    return "accepted";
  }
  Bytes cut(std::size_t size) const {
    return {bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(size)};
  }

  const TempDir dir_;
  const std::filesystem::path file_ = dir_.path() / "m.gbz";
  LayersReport report_;
  Bytes bytes_;
  std::size_t draft_bytes_ = 0;
};

void expect_exact(const ArtifactReader& artifact) {
  const TensorBundle source = layered_model();
  ASSERT_EQ(artifact.tensors().size(), source.tensors.size());
  for (std::size_t i = 0; i < source.tensors.size(); ++i) {
    const TensorEntry& tensor = source.tensors[i];
    EXPECT_TRUE(std::ranges::equal(decode_tensor(artifact, i), tensor.bytes)) << tensor.name;
  }
}

TEST_F(Layers, GiveTheExactValuesAndThoseOfTheDraft) {
  const ArtifactReader whole = ArtifactReader::open(file_);
  whole.verify();
  expect_exact(whole);
  EXPECT_FALSE(whole.is_draft());
  EXPECT_FALSE(whole.is_delta());
  EXPECT_EQ(whole.file_bytes(), static_cast<std::int64_t>(bytes_.size()));
  EXPECT_EQ(whole.file_bytes(), report_.exact.output_bytes);
  EXPECT_EQ(whole.draft()->file_bytes(), report_.draft.output_bytes);
  EXPECT_EQ(report_.exact.total_error, 0);
  EXPECT_GT(report_.draft.total_error, 0);
  EXPECT_LE(report_.draft.output_bytes, 60'000);
  const ArtifactReader draft = ArtifactReader::open(file_, {}, DigestCheck::kAtOnce, Layer::kDraft);
  EXPECT_TRUE(draft.is_draft());
  const auto compared = compare_with_source(draft, layered_model());
  double error = 0;
  for (const StoredTensor& tensor : compared) error = std::max(error, tensor.error);
  EXPECT_GT(error, 0);
  // The bits of both parts are those of the file.
  double bits = 0;
  for (const double each : whole.tensor_bits()) bits += each;
  EXPECT_NEAR(bits / 8 + static_cast<double>(whole.header_bytes()),
              static_cast<double>(whole.file_bytes()), 200);
}

TEST_F(Layers, ADraftIsTheFileThatTheTargetGives) {
  const std::filesystem::path alone = dir_.path() / "alone.gbz";
  compress_weights(layered_model(), alone, {.max_bytes = 60'000});
  const ArtifactReader draft = ArtifactReader::from_bytes(cut(draft_bytes_), "m.gbz");
  const ArtifactReader other = ArtifactReader::open(alone);
  EXPECT_TRUE(draft.is_draft());
  EXPECT_NEAR(static_cast<double>(draft.file_bytes()), static_cast<double>(other.file_bytes()),
              100);
  EXPECT_EQ(draft.identity(), report_.draft.identity);
}

TEST_F(Layers, AFewPointsMoreThanTheExactFile) {
  const std::filesystem::path alone = dir_.path() / "exact.gbz";
  const WeightsReport exact = compress_weights(layered_model(), alone, {});
  std::int64_t original = 0;
  for (const TensorEntry& tensor : layered_model().tensors)
    original += static_cast<std::int64_t>(tensor.bytes.size());
  EXPECT_LT(static_cast<double>(report_.exact.output_bytes - exact.output_bytes),
            0.03 * static_cast<double>(original));
}

TEST_F(Layers, SameBytesAtAnyNumberOfThreads) {
  for (const int threads : {1, 3}) {
    compress_layers(layered_model(), file_,
                    {.max_bytes = 60'000, .overwrite = true, .threads = threads});
    EXPECT_EQ(read_file(file_, 1 << 22), bytes_) << threads;
  }
}

TEST_F(Layers, NameWhatIsMissing) {
  EXPECT_NE(refusal(cut(draft_bytes_ - 1)).find("truncated: m.gbz is damaged: it lacks 1 byte"),
            std::string::npos);
  EXPECT_EQ(refusal(cut(draft_bytes_)), "accepted");
  EXPECT_EQ(refusal(cut(draft_bytes_), Layer::kDraft), "accepted");
  for (const std::size_t more :
       {std::size_t{1}, std::size_t{5}, std::size_t{100}, bytes_.size() - draft_bytes_ - 1}) {
    const std::string text = refusal(cut(draft_bytes_ + more));
    EXPECT_TRUE(text.starts_with("truncated: m.gbz: its exact part")) << text;
    EXPECT_TRUE(text.ends_with("with `draft`")) << text;
    EXPECT_EQ(refusal(cut(draft_bytes_ + more), Layer::kDraft), "accepted");
  }
  Bytes longer = bytes_;
  longer.push_back(std::byte{0});
  EXPECT_TRUE(refusal(longer).starts_with("corrupt: ")) << refusal(longer);
}

TEST_F(Layers, AFlippedBitIsNoticedInEitherPart) {
  for (std::size_t at = 4; at < bytes_.size(); at += 97) {
    Bytes damaged = bytes_;
    damaged[at] ^= std::byte{4};
    const std::string text = refusal(damaged);
    EXPECT_NE(text, "accepted") << at;
    const bool advised = text.ends_with("with `draft`");
    EXPECT_EQ(advised, at >= draft_bytes_) << at << " " << text;
    EXPECT_EQ(refusal(damaged, Layer::kDraft) == "accepted", at >= draft_bytes_) << at;
  }
}

TEST_F(Layers, PartsOfOtherFilesAreRefused) {
  const std::filesystem::path other = dir_.path() / "other.gbz";
  compress_weights(layered_model(), other, {.max_bytes = 60'000});
  Bytes swapped = read_file(other, 1 << 22);
  const Bytes rest(bytes_.begin() + static_cast<std::ptrdiff_t>(draft_bytes_), bytes_.end());
  EXPECT_NE(refusal(rest), "accepted");
  swapped.insert(swapped.end(), rest.begin(), rest.end());
  EXPECT_NE(refusal(swapped), "accepted");
  Bytes twice = cut(draft_bytes_);
  twice.insert(twice.end(), bytes_.begin(),
               bytes_.begin() + static_cast<std::ptrdiff_t>(draft_bytes_));
  EXPECT_NE(refusal(twice), "accepted");
}

TEST_F(Layers, ServeAsABase) {
  const BaseModel base = BaseModel::open(file_);
  EXPECT_EQ(base.digest(), BaseModel(layered_model()).digest());
}

TEST_F(Layers, NeedATargetAndNoBase) {
  const BaseModel base(layered_model());
  const auto code = [&](const WeightsOptions& options) {
    return code_of([&] { compress_layers(layered_model(), dir_.path() / "x.gbz", options); });
  };
  EXPECT_EQ(code({}), Errc::kUsage);
  EXPECT_EQ(code({.max_error = 0.1, .bases = {&base, 1}}), Errc::kUsage);
  EXPECT_FALSE(std::filesystem::exists(dir_.path() / "x.gbz"));
}

}  // namespace
}  // namespace gbcompress
