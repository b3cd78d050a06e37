#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "artifact/copied.h"
#include "gbcompress/artifact.h"
#include "gbcompress/coded_values.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

class WriterTest : public ::testing::Test {
 protected:
  WriterTest() {
    spec_.type_id = "linear";
    spec_.shape = {4, 4};
    spec_.tile_rows = spec_.tile_cols = 4;
    spec_.hidden = {2};
    theta_.assign(static_cast<std::size_t>(spec_parameters(spec_)), 0.5f);
  }
  Errc generated(const std::string& name = "w", DType dtype = DType::kF32) {
    return code([&] { writer_.add_generated(name, dtype, {4, 4}, spec_, Coding::kF16, theta_); });
  }
  Errc plain(const std::string& name) {
    return code([&] { writer_.add_plain(name, DType::kU8, {3}, std::vector<std::byte>(3)); });
  }
  template <typename F>
  Errc code(F&& f) {
    try {
      f();
    } catch (const Error& error) {
      message_ = error.what();
      return error.code();
    }
    return Errc::kFailure;
  }

  ArtifactWriter writer_{"", ""};
  GNetSpec spec_;
  std::vector<float> theta_;
  std::string message_;
};

TEST_F(WriterTest, RefusesNamesThatNoReaderTakes) {
  for (const std::string& name :
       {std::string(), std::string(513, 'x'), std::string("a\0", 2), std::string("a\n"),
        std::string("\x7F"), std::string("\xC2\x85"), std::string("\xFF"), std::string("\xC3"),
        std::string("\xED\xA0\x80"), std::string("\xC1\x81"), std::string("\xF4\x90\x80\x80")})
    EXPECT_EQ(plain(name), Errc::kUsage) << ::testing::PrintToString(name);
  for (const std::string& name :
       {std::string(512, 'x'), std::string("../x"), std::string("/etc/x"), std::string("\xC2\xA0"),
        std::string("\xF0\x9F\x98\x80"), std::string("\xE2\x82\xAC")})
    EXPECT_EQ(plain(name), Errc::kFailure) << ::testing::PrintToString(name);
  EXPECT_EQ(plain("../x"), Errc::kUsage);  // taken
  EXPECT_NO_THROW(ArtifactReader::from_bytes(writer_.encode(), "x.gbz").verify());
}

TEST_F(WriterTest, RefusesThetaThatIsNotFiniteNamingTheTensor) {
  theta_[3] = std::nanf("");
  EXPECT_EQ(generated("my.weight"), Errc::kNonFinite);
  EXPECT_NE(message_.find("my.weight"), std::string::npos);
  theta_[3] = 70'000;
  EXPECT_EQ(generated("my.weight"), Errc::kNonFinite);
  EXPECT_NE(message_.find("my.weight"), std::string::npos);
  EXPECT_NE(message_.find("70000"), std::string::npos);
}

TEST_F(WriterTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(generated("w", DType::kI32), Errc::kUsage);
  theta_.pop_back();
  EXPECT_EQ(generated(), Errc::kShapeMismatch);
  theta_.push_back(1);
  spec_.hidden = {};
  EXPECT_EQ(generated(), Errc::kShapeMismatch);
  spec_.hidden = {2};
  spec_.type_id = "";
  EXPECT_EQ(generated(), Errc::kUsage);
  spec_.type_id = "linear";
  EXPECT_EQ(generated(), Errc::kFailure);
  EXPECT_EQ(code([&] { writer_.add_plain("p", DType::kF32, {3}, std::vector<std::byte>(11)); }),
            Errc::kShapeMismatch);
  EXPECT_EQ(code([&] { writer_.add_tied("t", "nothing"); }), Errc::kNotFound);
  EXPECT_EQ(code([&] { writer_.add_tied("t", "w"); }), Errc::kFailure);
  EXPECT_EQ(code([&] { writer_.add_tied("u", "t"); }), Errc::kUsage);
  EXPECT_EQ(code([&] { ArtifactWriter("\xFF", ""); }), Errc::kUsage);
  EXPECT_EQ(ArtifactReader::from_bytes(writer_.encode(), "x").tensors().size(), 2u);
}

TEST_F(WriterTest, AnEmptyArtifactIsAFile) {
  const auto reader = ArtifactReader::from_bytes(writer_.encode(), "x");
  EXPECT_TRUE(reader.tensors().empty());
  EXPECT_EQ(reader.output_bytes(), 0);
}

TEST_F(WriterTest, ACopyHasTheSameTensorsButThoseReplaced) {
  CodedValues coded{.grid = default_grid({4, 8}), .step = -100};
  for (std::int32_t i = 0; i < 32; ++i) coded.integers.push_back(i % 5 - 2);
  writer_.add_coded("coded", DType::kF32, {4, 8}, coded);
  writer_.add_plain("plain", DType::kU8, {3}, std::vector<std::byte>(3, std::byte{7}));
  writer_.add_plain("norm", DType::kF32, {2}, std::vector<std::byte>(8));
  writer_.add_tied("tied", "coded");
  const ArtifactReader first = ArtifactReader::from_bytes(writer_.encode(), "x.gbz");
  const std::vector<float> values = {1.5f, -3};
  const Replacements replaced{.values = {{"norm", values}}, .mantissa_bits = 9};
  const ArtifactReader copy = ArtifactReader::from_bytes(with_replaced(first, replaced), "y.gbz");
  copy.verify();
  ASSERT_EQ(copy.tensors().size(), 4u);
  EXPECT_EQ(copy.coded(0).integers, coded.integers);
  for (const std::size_t i : {0u, 1u, 3u}) {
    EXPECT_EQ(copy.tensors()[i].name, first.tensors()[i].name);
    EXPECT_EQ(decode_tensor(copy, i), decode_tensor(first, i)) << i;
  }
  const auto bytes = decode_tensor(copy, 2);
  EXPECT_EQ(std::memcmp(bytes.data(), values.data(), bytes.size()), 0) << "both have nine bits";

  ASSERT_EQ(generated("made by g-nets"), Errc::kFailure);
  const ArtifactReader other = ArtifactReader::from_bytes(writer_.encode(), "z.gbz");
  EXPECT_EQ(code([&] { with_replaced(other, replaced); }), Errc::kUnsupported);
}

}  // namespace
}  // namespace gbcompress
