/// Large tensors of integer types, exactly, without the integers of a whole one in memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/weights.h"
#include "quantize/whole_numbers.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using testing::TempDir;

struct Numbers {
  std::vector<std::byte> bytes;
  TensorEntry entry;
};

/// @param make  (i): the i-th element
template <typename T>
Numbers numbers(DType dtype, std::vector<std::int64_t> shape,
                const std::function<T(std::uint64_t)>& make) {
  Numbers made;
  const auto count = static_cast<std::size_t>(tensor_elements(shape));
  made.bytes.resize(count * sizeof(T));
  for (std::size_t i = 0; i < count; ++i) {
    const T value = make(i);
    std::memcpy(made.bytes.data() + i * sizeof(T), &value, sizeof(T));
  }
  made.entry = {"w", dtype, std::move(shape), {}};
  return made;
}

std::int64_t normal(const RandomStream& noise, std::uint64_t i, double scale, std::int64_t most) {
  return std::clamp<std::int64_t>(std::lrint(scale * static_cast<double>(noise.normal(i))), -most,
                                  most);
}

/// Weights of eight 4-bit numbers in an element, as GPTQ packs them.
std::int32_t packed_nibbles(const RandomStream& noise, std::uint64_t i) {
  std::uint32_t value = 0;
  for (std::uint64_t k = 0; k < 8; ++k)
    value |= static_cast<std::uint32_t>(8 + normal(noise, 8 * i + k, 2, 7)) << (4 * k);
  return static_cast<std::int32_t>(value);
}

class LargeNumbers : public ::testing::Test {
 protected:
  /// Compresses, and compares what comes back: whole, and in slices.
  ArtifactReader there_and_back(Numbers& made) {
    made.entry.bytes = made.bytes;
    TensorBundle bundle;
    bundle.tensors = {made.entry};
    bundle.file_bytes = static_cast<std::int64_t>(made.bytes.size());
    WeightsOptions options;
    options.exact = {"*"};
    options.overwrite = true;
    options.threads = 2;
    const std::filesystem::path file = folder.path() / "w.gbz";
    compress_weights(bundle, file, options);
    ArtifactReader artifact = ArtifactReader::open(file);
    EXPECT_EQ(decode_tensor(artifact, 0), made.bytes);
    const auto width = static_cast<std::int64_t>(dtype_bits(made.entry.dtype) / 8);
    const std::int64_t count = tensor_elements(made.entry.shape);
    const RandomStream places(5, "slices");
    for (std::uint64_t n = 0; n < 8; ++n) {
      const auto first = static_cast<std::int64_t>(places.bits(2 * n)) % count;
      const auto size = 1 + static_cast<std::int64_t>(places.bits(2 * n + 1)) % (count - first);
      std::vector<std::byte> slice(static_cast<std::size_t>(size * width));
      read_slice(artifact, 0, made.entry.dtype, first, slice);
      EXPECT_TRUE(std::equal(slice.begin(), slice.end(), made.bytes.begin() + first * width))
          << first << " " << size;
    }
    return artifact;
  }
  /// Bits of an element.
  double bits(const ArtifactReader& artifact, const Numbers& made) {
    return 8 * static_cast<double>(artifact.file_bytes()) /
           static_cast<double>(tensor_elements(made.entry.shape));
  }

  TempDir folder;
};

TEST_F(LargeNumbers, Int8WeightsTakeTheirEntropy) {
  const RandomStream noise(1, "large");
  auto made = numbers<std::int8_t>(DType::kI8, {2100, 2200}, [&](std::uint64_t i) {
    return static_cast<std::int8_t>(normal(noise, i, 20, 127));
  });
  const ArtifactReader artifact = there_and_back(made);
  EXPECT_EQ(artifact.tensors()[0].kind, TensorKind::kQuantized);
  EXPECT_LT(bits(artifact, made), 1.005 * (std::log2(20) + 2.047));
}

TEST_F(LargeNumbers, PackedNibblesOfSeveralTypesTakeTheirs) {
  const RandomStream noise(2, "large");
  auto words = numbers<std::int32_t>(DType::kI32, {1100, 1030},
                                     [&](std::uint64_t i) { return packed_nibbles(noise, i); });
  const ArtifactReader artifact = there_and_back(words);
  EXPECT_TRUE(artifact.tensors()[0].nibbles);
  EXPECT_LT(bits(artifact, words), 1.01 * 8 * 3.05);
  auto bytes = numbers<std::uint8_t>(DType::kU8, {4'300'000, 1}, [&](std::uint64_t i) {
    return static_cast<std::uint8_t>(8 + normal(noise, 2 * i, 2, 7) +
                                     16 * (8 + normal(noise, 2 * i + 1, 2, 7)));
  });
  EXPECT_LT(bits(there_and_back(bytes), bytes), 1.02 * 2 * 3.05);
}

TEST_F(LargeNumbers, OfOtherTypesAndShapesComeBack) {
  const RandomStream noise(3, "large");
  auto shorts = numbers<std::int16_t>(DType::kI16, {2, 1'100'001}, [&](std::uint64_t i) {
    return static_cast<std::int16_t>(normal(noise, i, 900, 32767));
  });
  EXPECT_LT(bits(there_and_back(shorts), shorts), 1.04 * (std::log2(900) + 2.047));
  auto longs = numbers<std::int64_t>(DType::kI64, {600'001}, [&](std::uint64_t i) {
    return 100'000 + normal(noise, i, 50, 1000);
  });
  EXPECT_LT(bits(there_and_back(longs), longs), 1.05 * (std::log2(50) + 2.047));
}

TEST_F(LargeNumbers, NoiseAndRepeatedContentTakeNoMoreThanElsewhere) {
  const RandomStream noise(4, "large");
  auto random = numbers<std::uint32_t>(DType::kU32, {1'200'000},
                                       [&](std::uint64_t i) { return noise.bits(i); });
  EXPECT_LT(there_and_back(random).file_bytes(),
            static_cast<std::int64_t>(random.bytes.size()) + 300);
  auto again = numbers<std::uint8_t>(DType::kU8, {5'000'000}, [&](std::uint64_t i) {
    return static_cast<std::uint8_t>(noise.bits(i % 40'000));
  });
  EXPECT_LT(there_and_back(again).file_bytes(), 60'000);
}

/// A sample has no number that is too large.
TEST_F(LargeNumbers, OneThatIsTooLargeIsKept) {
  const RandomStream noise(6, "large");
  auto made = numbers<std::int32_t>(DType::kI32, {1'200'000}, [&](std::uint64_t i) {
    return static_cast<std::int32_t>(i == 700'123 ? 2'000'000'000 : normal(noise, i, 20, 127));
  });
  there_and_back(made);
}

TEST_F(LargeNumbers, ThreadsDoNotChangeTheBytes) {
  const RandomStream noise(7, "large");
  auto made = numbers<std::int8_t>(DType::kI8, {2048, 4000}, [&](std::uint64_t i) {
    return static_cast<std::int8_t>(normal(noise, i, 9, 127));
  });
  made.entry.bytes = made.bytes;
  const auto one = packed_numbers(made.entry, 1), four = packed_numbers(made.entry, 4);
  ASSERT_TRUE(one && four);
  EXPECT_EQ(one->blocks, four->blocks);
  EXPECT_EQ(one->form.step, four->form.step);
}

}  // namespace
}  // namespace gbcompress
