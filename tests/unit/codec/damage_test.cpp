#include <gtest/gtest.h>

#include <chrono>

#include "gbcompress/error.h"
#include "support/code_of.h"
#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

using testing_codec::decode;
using testing_codec::encode;
using testing_codec::random_tensor;
using testing_codec::Tensor;

class Damage : public ::testing::TestWithParam<CodecProfile> {
 protected:
  /// Whatever the stream is: integers within bounds, or one of the two errors.
  void survives(std::span<const std::byte> stream) {
    try {
      for (const auto& values : decode(GetParam(), stream, tensors_))
        for (std::int32_t value : values) ASSERT_LE(std::abs(value), kMaxMagnitude);
    } catch (const Error& error) {
      ASSERT_TRUE(error.code() == Errc::kCorrupt || error.code() == Errc::kTruncated)
          << error.what();
      ++refused_;
    }
  }

  std::vector<Tensor> tensors_ = {random_tensor(1), random_tensor(7), random_tensor(12)};
  std::vector<std::byte> stream_ = encode(GetParam(), tensors_);
  int refused_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Profiles, Damage,
                         ::testing::Values(CodecProfile::kSmall, CodecProfile::kLanes),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

TEST_P(Damage, EveryShorterStreamIsTruncated) {
  for (std::size_t size = 0; size < stream_.size(); size += 1 + size / 16) {
    const auto cut = std::span(stream_).first(size);
    const Errc code = code_of([&] { decode(GetParam(), cut, tensors_); });
    EXPECT_TRUE(code == Errc::kTruncated || code == Errc::kCorrupt) << size;
  }
  const auto cut = std::span(stream_).first(stream_.size() / 2);
  EXPECT_EQ(code_of([&] { decode(GetParam(), cut, tensors_); }), Errc::kTruncated);
}

TEST_P(Damage, BytesAfterTheLastNumberAreAnError) {
  stream_.push_back(std::byte{0});
  stream_.push_back(std::byte{0});
  EXPECT_EQ(code_of([&] { decode(GetParam(), stream_, tensors_); }), Errc::kCorrupt);
}

TEST_P(Damage, AMissingTensorIsNoticed) {
  tensors_.pop_back();
  EXPECT_EQ(code_of([&] { decode(GetParam(), stream_, tensors_); }), Errc::kCorrupt);
}

TEST_P(Damage, FlippedBitsEndInBoundedNumbersOrErrors) {
  const RandomStream random(3, "flip");
  for (std::uint64_t i = 0; i < 150; ++i) {
    auto damaged = stream_;
    auto& byte = damaged[random.bits(2 * i) % damaged.size()];
    byte ^= std::byte{1} << random.bits(2 * i + 1) % 8;
    survives(damaged);
  }
  EXPECT_GT(refused_, 0);
}

TEST_P(Damage, GarbageEndsInBoundedNumbersOrErrorsSoon) {
  const RandomStream random(4, "garbage");
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 100; ++i) {
    std::vector<std::byte> garbage(i * 20);
    for (std::size_t k = 0; k < garbage.size(); ++k)
      garbage[k] = i % 4 == 0   ? std::byte{0xFF}
                   : i % 4 == 1 ? std::byte{0}
                                : static_cast<std::byte>(random.bits(i * 2000 + k));
    survives(garbage);
  }
  EXPECT_GT(refused_, 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
}

}  // namespace
}  // namespace gbcompress
