#include "gbcompress/artifact.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "base/file.h"
#include "base/random.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "golden/craft.h"
#include "golden/samples.h"

namespace gbcompress {
namespace {

using craft::Bytes;

TEST(Artifact, RandomContentComesBack) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    const Bytes bytes = samples::random_artifact(seed).encode();
    EXPECT_EQ(bytes, samples::random_artifact(seed).encode());  // same content, same bytes
    const ArtifactReader reader = ArtifactReader::from_bytes(bytes, "x.gbz");
    EXPECT_NO_THROW(reader.verify());
    EXPECT_EQ(reader.arch(), seed % 2 ? "mlp" : "");
    EXPECT_EQ(reader.settings(), seed % 3 ? R"({"seed": 1})" : "");
    EXPECT_EQ(reader.file_bytes(), static_cast<std::int64_t>(bytes.size()));
    EXPECT_EQ(reader.identity().size(), 64u);
    std::int64_t output = 0;
    for (std::size_t i = 0; i < reader.tensors().size(); ++i)
      output += static_cast<std::int64_t>(decode_tensor(reader, i, samples::place_all()).size());
    EXPECT_EQ(output, reader.output_bytes());
  }
}

TEST(Artifact, ThetaIsWhatRoundTripPromises) {
  RandomStream random(4, "artifact test");
  for (Coding coding : {Coding::kF32, Coding::kF16, Coding::kI8}) {
    GNetSpec spec;
    spec.type_id = "conv";
    spec.type_revision = 7;
    spec.shape = {6, 10, 3};
    spec.view = {.row_dim = 1, .col_dim = 0, .row_splits = 2};
    spec.tile_rows = 4;
    spec.tile_cols = 6;
    spec.row_code = Encoding::kGray;
    spec.kernel_codes = {Encoding::kBinary};
    spec.hidden = {5, 4};
    spec.output_scale = 0.1f;
    std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
    random.fill_normal(theta, 0, 0.3f);
    ArtifactWriter writer("", "");
    writer.add_generated("../x", DType::kBF16, {6, 10, 3}, spec, coding, theta);
    const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
    const ArtifactTensor& tensor = reader.tensors().at(0);
    EXPECT_EQ(tensor.name, "../x");  // a name like any other, and never a path
    EXPECT_EQ(tensor.spec, spec);
    EXPECT_EQ(tensor.dtype, DType::kBF16);
    EXPECT_EQ(tensor.coding, coding);
    EXPECT_EQ(tensor.kind, TensorKind::kGenerated);
    const auto got = reader.theta(0), want = round_trip(spec, coding, theta);
    ASSERT_EQ(got.size(), want.size());
    EXPECT_EQ(std::memcmp(got.data(), want.data(), got.size() * sizeof(float)), 0);
  }
}

TEST(Artifact, SpecsMayFormAnotherShapeThanTheTensor) {
  GNetSpec spec;
  spec.type_id = "symmetric";
  spec.shape = {10};
  spec.view = {.col_dim = -1};
  spec.tile_rows = 10;
  spec.hidden = {2};
  const std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)), 0.5f);
  ArtifactWriter writer("", "");
  writer.add_generated("s", DType::kF32, {4, 4}, spec, Coding::kI8, theta);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  EXPECT_EQ(reader.tensors()[0].spec, spec);
  EXPECT_EQ(reader.tensors()[0].shape, (std::vector<std::int64_t>{4, 4}));
  EXPECT_EQ(reader.output_bytes(), 64);
  try {
    decode_tensor(reader, 0);
    FAIL() << "a tensor was decoded without its layer type";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kUnsupported);
  }
}

TEST(Artifact, PlainTensorsAreExactAndTiedOnesAreTheSame) {
  const Bytes content = craft::to_bytes("0123456789abcdef");
  ArtifactWriter writer("a", "");
  writer.add_plain("p", DType::kC64, {2}, content);
  writer.add_tied("t", "p");
  writer.add_plain("none", DType::kF32, {0, 5}, {});
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  EXPECT_EQ(reader.plain(0), content);
  EXPECT_TRUE(reader.plain(2).empty());
  const ArtifactTensor& tied = reader.tensors()[1];
  EXPECT_EQ(tied.kind, TensorKind::kTied);
  EXPECT_EQ(tied.tied_to, "p");
  EXPECT_EQ(tied.dtype, DType::kC64);
  EXPECT_EQ(tied.shape, std::vector<std::int64_t>{2});
  EXPECT_EQ(decode_tensor(reader, 1), content);
  EXPECT_EQ(reader.output_bytes(), 32);
  for (const auto& wrong : {std::function<void()>([&] { reader.plain(1); }),
                            std::function<void()>([&] { reader.theta(0); }),
                            std::function<void()>([&] { reader.plain(9); })})
    try {
      wrong();
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kUsage);
    }
}

TEST(Artifact, OutputIsRoundedToItsOwnType) {
  GNetSpec spec;
  spec.type_id = "linear";
  spec.shape = {5, 6};
  spec.tile_rows = 5;
  spec.tile_cols = 6;
  spec.hidden = {4};
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  RandomStream(8, "theta").fill_normal(theta, 0, 0.4f);
  ArtifactWriter writer("", "");
  for (DType dtype : {DType::kF32, DType::kF64, DType::kF16, DType::kBF16})
    writer.add_generated(std::string(dtype_name(dtype)), dtype, {5, 6}, spec, Coding::kF32, theta);
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "x.gbz");
  const auto f32 = decode_tensor(reader, 0), f64 = decode_tensor(reader, 1);
  ASSERT_EQ(f64.size(), 2 * f32.size());
  for (std::size_t n = 0; n < 30; ++n) {
    float narrow;
    double wide;
    std::memcpy(&narrow, f32.data() + 4 * n, 4);
    std::memcpy(&wide, f64.data() + 8 * n, 8);
    EXPECT_EQ(wide, static_cast<double>(narrow));
    EXPECT_NE(wide, 0);
  }
  EXPECT_EQ(decode_tensor(reader, 2).size(), 60u);
  EXPECT_EQ(decode_tensor(reader, 3).size(), 60u);
}

TEST(Artifact, LimitsAreTheCallers) {
  const Bytes bytes = samples::random_artifact(1).encode();
  const auto code = [&](auto change) {
    ArtifactLimits limits;
    change(limits);
    try {
      ArtifactReader::from_bytes(bytes, "x.gbz", limits);
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kFailure;
  };
  EXPECT_EQ(code([](ArtifactLimits&) {}), Errc::kFailure);
  EXPECT_EQ(code([](ArtifactLimits& l) { l.output_bytes = 10; }), Errc::kLimit);
  EXPECT_EQ(code([](ArtifactLimits& l) { l.header_bytes = 10; }), Errc::kLimit);
  EXPECT_EQ(code([](ArtifactLimits& l) { l.file_bytes = 10; }), Errc::kLimit);
  EXPECT_EQ(code([](ArtifactLimits& l) { l.tensors = 1; }), Errc::kLimit);
}

TEST(Artifact, FilesAreOpenedAndRecognised) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("gbc-artifact-" + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto path = folder / "a.gbz", other = folder / "b.txt";
  const ArtifactWriter writer = samples::random_artifact(2);
  const std::int64_t written = writer.write(path, false);
  EXPECT_EQ(written, static_cast<std::int64_t>(std::filesystem::file_size(path)));
  EXPECT_TRUE(ArtifactReader::is_artifact(path));
  const auto reader = ArtifactReader::open(path);
  EXPECT_EQ(reader.identity(), ArtifactReader::from_bytes(writer.encode(), "x").identity());
  AtomicFile text(other, false);
  text.write(craft::to_bytes("hello"));
  text.commit();
  EXPECT_FALSE(ArtifactReader::is_artifact(other));
  const auto code = [&](auto&& f) {
    try {
      f();
    } catch (const Error& error) {
      return error.code();
    }
    return Errc::kFailure;
  };
  EXPECT_EQ(code([&] { ArtifactReader::open(other); }), Errc::kCorrupt);
  EXPECT_EQ(code([&] { ArtifactReader::open(folder / "none"); }), Errc::kNotFound);
  EXPECT_EQ(code([&] { ArtifactReader::open(folder); }), Errc::kIo);
  EXPECT_EQ(code([&] { writer.write(path, false); }), Errc::kExists);
  EXPECT_EQ(code([&] { writer.write(path, true); }), Errc::kFailure);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gbcompress
