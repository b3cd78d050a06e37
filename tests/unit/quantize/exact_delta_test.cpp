// Exact changes since a base model, and chains of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>

#include "base/file.h"
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

/// The same weights after some steps, each of which moves every weight a little.
TensorBundle trained(int steps) {
  MadeTensors made;
  std::vector<float> values = normals(12'000, 1);
  for (int step = 1; step <= steps; ++step) {
    const std::vector<float> change = normals(12'000, 10 + static_cast<std::uint64_t>(step), 1e-4f);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += change[i];
  }
  std::vector<std::uint16_t> halves;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    halves.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  made.add("full", {100, 120}, values);
  made.add<std::uint16_t>("half", DType::kBF16, {100, 120}, halves);
  made.add("kept", {300}, normals(300, 5));
  made.add<std::int64_t>("steps", DType::kI64, {}, {steps});
  made.add<std::uint8_t>("none", DType::kU8, {0, 3}, {});
  return made.sorted();
}

class ExactDeltas : public ::testing::Test {
 protected:
  std::filesystem::path file(int step) const {
    return dir_.path() / ("ckpt-" + std::to_string(step) + ".gbz");
  }
  WeightsReport compress(int step, const BaseModel* base = nullptr) {
    return compress_weights(trained(step), file(step),
                            {.bases = {base, base ? std::size_t{1} : 0}, .overwrite = true});
  }
  /// ckpt-0 whole, and three deltas, each of the one before.
  void make_chain() {
    compress(0);
    for (int step = 1; step <= 3; ++step) {
      const BaseModel before = BaseModel::open(file(step - 1));
      compress(step, &before);
    }
  }
  void expect_tensors(const BaseModel& model, int step) {
    EXPECT_EQ(model.digest(), BaseModel(trained(step)).digest());
  }
  /// What the error of opening a link says, its code first.
  std::string refusal(int step) {
    try {
      BaseModel::open(file(step));
    } catch (const Error& error) {
      return std::string(errc_name(error.code())) + ": " + error.what();
    }
    return "accepted";
  }
  const TempDir dir_;
};

TEST_F(ExactDeltas, StoreEveryChangeBitForBitInFewerBytes) {
  const BaseModel base(trained(0));
  const WeightsReport whole = compress(1), delta = compress(1, &base);
  EXPECT_LT(delta.output_bytes, whole.output_bytes * 3 / 4);
  EXPECT_EQ(delta.total_error, 0);
  const ArtifactReader artifact = ArtifactReader::open(file(1));
  const TensorBundle now = trained(1);
  std::map<std::string, std::string> stored;
  for (std::size_t i = 0; i < now.tensors.size(); ++i) {
    const auto bytes = decode_tensor(artifact, i, {.base = base_source(artifact, {&base, 1})});
    EXPECT_TRUE(std::ranges::equal(bytes, now.tensors[i].bytes)) << now.tensors[i].name;
    stored[delta.tensors[i].name] = delta.tensors[i].stored;
  }
  EXPECT_EQ(stored["full"], "base and exact change");
  EXPECT_EQ(stored["half"], "base and exact change");
  EXPECT_EQ(stored["kept"], "as in the base");
  EXPECT_EQ(artifact.digest(), BaseModel(now).digest());
  EXPECT_EQ(artifact.bases(), std::vector{base.digest()});
}

TEST_F(ExactDeltas, AreNeverLargerThanTheTensor) {
  MadeTensors before, after;
  before.add("a", {100, 100}, normals(10'000, 1));
  after.add("a", {100, 100}, std::vector<float>(10'000, 0.5f));
  before.add("b", {100, 100}, normals(10'000, 2));
  std::vector<float> mostly(10'000, 0.5f);
  mostly[77] = 1;
  after.add("b", {100, 100}, mostly);
  const BaseModel base(before.sorted());
  const WeightsReport report = compress_weights(after.sorted(), file(0), {.bases = {&base, 1}});
  EXPECT_EQ(report.tensors[0].stored, "constant");
  EXPECT_EQ(report.tensors[1].stored, "exact");
}

/// Whatever its first bytes are: here they hardly pack, and the rest does very well.
TEST_F(ExactDeltas, AreNeverLargerThanATensorOfUnlikeParts) {
  constexpr std::size_t kCount = 400'000, kNoise = 17'000;
  std::vector<float> before(kCount, 0.5f);
  const std::vector<float> noise = normals(static_cast<int>(kNoise), 3);
  std::ranges::copy(noise, before.begin());
  std::vector<float> now = before;
  const std::vector<float> moved = normals(60'000, 4);
  // Most of the base is noise, of which the tensor has nothing left.
  for (std::size_t i = 0; i < moved.size(); ++i) before[kNoise + 6 * i] = moved[i];
  MadeTensors old, made;
  old.add("a", {400, 1000}, before);
  made.add("a", {400, 1000}, now);
  const BaseModel base(old.sorted());
  const TensorBundle next = made.sorted();
  const std::int64_t whole = compress_weights(next, file(0), {}).output_bytes;
  const WeightsReport delta = compress_weights(next, file(1), {.bases = {&base, 1}});
  EXPECT_LT(delta.output_bytes, whole + 200);
  EXPECT_EQ(delta.tensors[0].stored, "exact");
}

TEST_F(ExactDeltas, FormChains) {
  make_chain();
  for (int step = 0; step <= 3; ++step) expect_tensors(BaseModel::open(file(step)), step);
  const ArtifactReader last = ArtifactReader::open(file(3));
  const BaseModel base = BaseModel::open_for(last, std::vector{dir_.path()}).front();
  expect_tensors(base, 2);
  const BaseModel direct = BaseModel::open_for(last, std::vector{file(2)}).front();
  EXPECT_EQ(direct.digest(), base.digest());
  // The model itself serves as well as its file.
  std::filesystem::remove(file(0));
  write_safetensors(dir_.path() / "first.safetensors", trained(0).tensors, {}, false);
  expect_tensors(BaseModel::open(file(3)), 3);
}

TEST_F(ExactDeltas, NameAMissingADamagedAndAForgedLink) {
  make_chain();
  std::filesystem::rename(file(1), dir_.path() / "away");
  EXPECT_NE(refusal(3).find("ckpt-2.gbz needs the model with the digest " +
                            BaseModel(trained(1)).digest() + ", and no file in "),
            std::string::npos)
      << refusal(3);
  EXPECT_TRUE(refusal(3).starts_with("not_found: ")) << refusal(3);
  std::filesystem::copy_file(dir_.path() / "away", file(1));
  std::fstream damaged(file(1), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(200);
  damaged.put('\x55').put('\x56');
  damaged.close();
  EXPECT_NE(refusal(3).find("ckpt-1.gbz is damaged"), std::string::npos) << refusal(3);
  // A file that states a digest of other tensors.
  const BaseModel base(trained(0));
  ArtifactWriter forged("", "");
  forged.set_bases({base.digest()});
  forged.set_digest(BaseModel(trained(1)).digest());
  for (const TensorEntry& tensor : base.tensors().tensors)
    forged.add_base(tensor.name, tensor.dtype, tensor.shape);
  forged.write(file(1), true);
  EXPECT_NE(refusal(3).find("ckpt-1.gbz does not expand to the tensors whose digest it states"),
            std::string::npos)
      << refusal(3);
}

TEST_F(ExactDeltas, RefuseALoop) {
  const BaseModel first(trained(0)), second(trained(1));
  for (const int step : {0, 1}) {
    ArtifactWriter writer("", "");
    writer.set_bases({(step == 0 ? second : first).digest()});
    writer.set_digest((step == 0 ? first : second).digest());
    writer.add_base("kept", DType::kF32, {300});
    writer.write(file(step), false);
  }
  EXPECT_NE(refusal(1).find("is needed to expand itself: its chain of deltas is a loop"),
            std::string::npos)
      << refusal(1);
}

/// A checkpoint that is the one before it bit for bit, and whose name comes first.
TEST_F(ExactDeltas, FindTheFileThatServesAmongSeveral) {
  compress(0);
  const BaseModel first = BaseModel::open(file(0));
  const auto again = dir_.path() / "a-copy.gbz", next = dir_.path() / "ckpt-0-next.gbz";
  compress_weights(trained(0), again, {.bases = {&first, 1}});
  compress_weights(trained(1), next, {.bases = {&first, 1}});
  expect_tensors(BaseModel::open(again), 0);
  expect_tensors(BaseModel::open(next), 1);
  // The same tensors as the change since a later step, which is a loop.
  const BaseModel second(trained(1));
  compress_weights(trained(0), dir_.path() / "a-loop.gbz", {.bases = {&second, 1}});
  expect_tensors(BaseModel::open(next), 1);
  expect_tensors(BaseModel::open(again), 0);
  // And without the whole file as a file that states no digest.
  std::filesystem::remove(file(0));
  write_safetensors(dir_.path() / "first.safetensors", trained(0).tensors, {}, false);
  expect_tensors(BaseModel::open(next), 1);
  std::filesystem::remove(dir_.path() / "first.safetensors");
  EXPECT_EQ(code_of([&] { BaseModel::open(again); }), Errc::kCorrupt);
}

/// A damaged file that no link needs, and one beside a copy that serves.
TEST_F(ExactDeltas, ReadNoFilesThatTheyDoNotNeed) {
  make_chain();
  const auto damage = [](const std::filesystem::path& path) {
    std::fstream damaged(path, std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(-40, std::ios::end);
    damaged.put('\x55').put('\x56');
  };
  std::filesystem::copy_file(file(1), dir_.path() / "a-damaged.gbz");
  damage(dir_.path() / "a-damaged.gbz");
  expect_tensors(BaseModel::open(file(3)), 3);
  damage(file(3));
  expect_tensors(BaseModel::open(file(2)), 2);
}

TEST_F(ExactDeltas, CompareTheirTensorsWithTheDigestThatTheyState) {
  const BaseModel base(trained(0));
  ArtifactWriter forged("", "");
  forged.set_bases({base.digest()});
  forged.set_digest(BaseModel(trained(1)).digest());
  for (const TensorEntry& tensor : base.tensors().tensors)
    forged.add_base(tensor.name, tensor.dtype, tensor.shape);
  forged.write(file(1), true);
  EXPECT_EQ(code_of([&] {
              BaseModel::on(ArtifactReader::open(file(1)), {&base, 1});
            }),
            Errc::kCorrupt);
}

TEST_F(ExactDeltas, KeepTiesThroughChains) {
  const auto tied = [](std::uint64_t one, std::uint64_t other) {
    MadeTensors made;
    made.add("a", {3, 40}, normals(120, one));
    made.add("b", {3, 40}, normals(120, other));
    made.add("c", {50}, normals(50, 2));
    if (one == other) made.bundle.tensors[1].bytes = made.bundle.tensors[0].bytes;
    return made.sorted();
  };
  const std::uint64_t values[][2] = {{1, 1}, {2, 2}, {2, 3}, {2, 3}, {4, 3}};
  for (int step = 0; step < 5; ++step) {
    std::optional<BaseModel> before;
    if (step > 0) before = BaseModel::open(file(step - 1));
    compress_weights(
        tied(values[step][0], values[step][1]), file(step),
        {.bases = {before ? &*before : nullptr, before ? std::size_t{1} : 0}, .keep_digest = true});
  }
  for (int step = 0; step < 5; ++step)
    EXPECT_EQ(BaseModel::open(file(step)).digest(),
              BaseModel(tied(values[step][0], values[step][1])).digest());
}

TEST_F(ExactDeltas, RefuseAnotherBaseAndOtherShapes) {
  const BaseModel base(trained(0)), other(trained(2));
  compress(1, &base);
  const ArtifactReader artifact = ArtifactReader::open(file(1));
  EXPECT_EQ(code_of([&] { base_source(artifact, {&other, 1}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { decode_tensor(artifact, 0); }), Errc::kUsage);
  MadeTensors changed;
  changed.add("full", {120, 100}, normals(12'000, 99));
  EXPECT_EQ(code_of([&] {
              compress_weights(changed.sorted(), file(2), {.bases = {&base, 1}});
            }),
            Errc::kShapeMismatch);
  ArtifactWriter writer("", "");
  EXPECT_EQ(code_of([&] { writer.add_change("c", DType::kC64, {3}, {}); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { writer.add_change("e", DType::kF32, {0}, {}); }), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
