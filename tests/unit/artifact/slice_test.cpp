/// read_slice(): some elements of a tensor are those of the whole, and nothing else is decoded.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "artifact/read_many.h"
#include "artifact/sections/planes.h"
#include "base/random.h"
#include "gbcompress/decode.h"
#include "support/code_of.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::normals;

std::vector<std::byte> bytes_of(const std::vector<float>& values, DType dtype) {
  DecodedTensor floats{std::vector<float>(values)};
  if (dtype == DType::kF32) return std::move(floats).take_bytes();
  std::vector<std::byte> narrow;  // the upper half: BF16, cut off
  const auto wide = floats.bytes();
  for (std::size_t i = 2; i < wide.size(); i += 4) {
    narrow.push_back(wide[i]);
    narrow.push_back(wide[i + 1]);
  }
  return narrow;
}

/// Tensors of every kind of section, and integers in stripes.
std::vector<std::byte> several() {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  CodedValues coded{.grid = {1300, 1700, 0, true}, .step = -70};
  coded.grid.lanes = true;
  for (const float value : normals(1300 * 1700, 1, 3))
    coded.integers.push_back(static_cast<std::int32_t>(value));
  writer.add_coded("coded", DType::kF32, {1300, 1700}, coded);
  writer.add_plain("planes", DType::kF32, {700, 900}, bytes_of(normals(700 * 900, 2), DType::kF32));
  writer.add_plain("brain", DType::kBF16, {1500, 900},
                   bytes_of(normals(1500 * 900, 3), DType::kBF16));
  writer.add_tied("tied", "planes");
  std::vector<std::byte> noise(3000);
  const RandomStream random(5, "slice");
  for (std::size_t i = 0; i < noise.size(); ++i)
    noise[i] = static_cast<std::byte>(random.bits(i) & 255);
  writer.add_plain("raw", DType::kU8, {3000}, noise);
  std::vector<std::byte> pattern(80000);
  for (std::size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<std::byte>(i % 7);
  writer.add_plain("zstd", DType::kI64, {100, 100}, pattern);
  writer.add_plain("nibbles", DType::kF4, {50, 60}, std::span(noise).first(1500));
  const std::vector<float> one = {0.5f};
  writer.add_constant("constant", DType::kF32, {50, 7}, std::as_bytes(std::span(one)));
  return writer.encode();
}

TEST(Slice, IsThatOfTheWholeTensor) {
  const auto reader = ArtifactReader::from_bytes(several(), "several");
  ASSERT_GE(reader.planes(1)->stripes(), 4u);
  ASSERT_FALSE(reader.as_stored(4).empty());
  const RandomStream random(7, "places");
  for (std::size_t i = 0; i < reader.tensors().size(); ++i) {
    const ArtifactTensor& tensor = reader.tensors()[i];
    const auto whole = decode_tensor(reader, i);
    const auto bits = static_cast<std::uint64_t>(dtype_bits(tensor.dtype));
    const std::uint64_t unit = std::max<std::uint64_t>(8, bits) / bits,
                        all = whole.size() * 8 / bits;
    for (std::uint64_t n = 0; n < 12; ++n) {
      const std::uint64_t a = random.bits(4 * n) % (all + 1),
                          b = random.bits(4 * n + 1) % (all + 1);
      const std::uint64_t first = std::min(a, b) / unit * unit, end = std::max(a, b) / unit * unit;
      std::vector<std::byte> part((end - first) * bits / 8);
      read_slice(reader, i, tensor.dtype, static_cast<std::int64_t>(first), part, {.threads = 2});
      const auto from = whole.begin() + static_cast<std::ptrdiff_t>(first * bits / 8);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), from)) << tensor.name << " from " << first;
    }
  }
}

TEST(Slice, IsReadInOtherTypes) {
  const auto reader = ArtifactReader::from_bytes(several(), "several");
  for (const std::size_t i : {0u, 1u, 2u, 3u, 7u})
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
      const auto size = static_cast<std::size_t>(dtype_bits(dtype) / 8);
      std::vector<std::byte> whole(static_cast<std::size_t>(
          tensor_elements(reader.tensors()[i].shape) * dtype_bits(dtype) / 8));
      read_into(reader, i, dtype, whole);
      std::vector<std::byte> part(120 * size);
      read_slice(reader, i, dtype, 200, part);
      const auto from = whole.begin() + static_cast<std::ptrdiff_t>(200 * size);
      ASSERT_TRUE(std::equal(part.begin(), part.end(), from)) << i;
    }
}

/// Damage elsewhere is not seen, because nothing there is decoded.
TEST(Slice, DecodesOnlyItsStripes) {
  std::vector<std::byte> bytes = several();
  const auto intact = ArtifactReader::from_bytes(bytes, "several");
  const auto whole = decode_tensor(intact, 1);
  const auto section = intact.parts(1).front();
  const auto planes = intact.planes(1);
  const auto found = std::search(bytes.begin(), bytes.end(), section.begin(), section.end());
  const auto last = static_cast<std::ptrdiff_t>(planes->stored(planes->stripes() - 1).size());
  const auto end = found + static_cast<std::ptrdiff_t>(section.size());
  std::fill(end - last, end, std::byte{255});
  const auto reader = ArtifactReader::from_bytes(bytes, "damaged", {}, DigestCheck::kNever);
  std::vector<std::byte> part(1000);
  read_slice(reader, 1, DType::kF32, 131000,
             part);  // the end of a stripe and the begin of the next
  EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + 4 * 131000));
  const auto code = [&](std::int64_t first) {
    return code_of([&] { read_slice(reader, 1, DType::kF32, first, part); });
  };
  EXPECT_EQ(code(700 * 900 - 250), Errc::kCorrupt);
}

TEST(Slice, RefusesWhatIsBeyondTheTensor) {
  const auto reader = ArtifactReader::from_bytes(several(), "several");
  std::vector<std::byte> bytes(64);
  const auto code = [&](std::size_t tensor, DType dtype, std::int64_t first, std::size_t size) {
    return code_of([&] { read_slice(reader, tensor, dtype, first, std::span(bytes).first(size)); });
  };
  EXPECT_EQ(code(1, DType::kF32, 700 * 900 - 16, 64), Errc::kFailure);  // that is right
  EXPECT_EQ(code(1, DType::kF32, 700 * 900, 0), Errc::kFailure);
  EXPECT_EQ(code(1, DType::kF32, 700 * 900 - 15, 64), Errc::kShapeMismatch);
  EXPECT_EQ(code(1, DType::kF32, -1, 4), Errc::kShapeMismatch);
  EXPECT_EQ(code(1, DType::kF32, INT64_MAX, 4), Errc::kShapeMismatch);
  EXPECT_EQ(code(1, DType::kF32, 0, 6), Errc::kShapeMismatch);
  EXPECT_EQ(code(6, DType::kF4, 1, 4), Errc::kShapeMismatch);
  EXPECT_EQ(code(4, DType::kF32, 0, 4), Errc::kUsage);
  EXPECT_EQ(code(99, DType::kF32, 0, 4), Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
