#include <gtest/gtest.h>

#include "support/code_of.h"
#include "unit/codec/lanes_parts.h"

namespace gbcompress {
namespace {

using namespace testing_codec;

class LanesDamage : public ::testing::Test {
 protected:
  /// The integers, or nothing where the stream is refused.
  std::optional<std::vector<std::vector<std::int32_t>>> outcome(std::span<const std::byte> stream) {
    try {
      return decode(kLanesProfile, stream, tensors_);
    } catch (const Error& error) {
      EXPECT_TRUE(error.code() == Errc::kCorrupt || error.code() == Errc::kTruncated)
          << error.what();
      return {};
    }
  }

  // With escapes, low bits, narrow lines, several tables.
  std::vector<Tensor> tensors_ = {lanes_tensor(6, 70, true, 1, 1), lanes_tensor(9, 7, false, 40, 2),
                                  lanes_tensor(1, 90, true, 0.3, 3)};
  std::vector<std::byte> stream_ = encode(kLanesProfile, tensors_);
};

TEST_F(LanesDamage, EveryFlippedBitIsRefusedOrHarmless) {
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * stream_.size(); ++bit) {
    auto damaged = stream_;
    damaged[bit / 8] ^= std::byte{1} << bit % 8;
    const auto found = outcome(damaged);
    refused += !found;
    if (!found) continue;
    for (const auto& values : *found)
      for (const std::int32_t value : values) ASSERT_LE(std::abs(value), kMaxMagnitude) << bit;
  }
  // Integers of escapes and low bits that stay in range change nothing else.
  EXPECT_GT(refused, 8 * stream_.size() * 9 / 10);
}

TEST_F(LanesDamage, EveryProcessorSaysTheSameOfDamage) {
  const RandomStream random(5, "lanes damage");
  std::size_t refused = 0;
  for (std::uint64_t i = 0; i < 400; ++i) {
    auto damaged = stream_;
    for (std::uint64_t hit = 0; hit <= i % 3; ++hit) {
      const std::uint64_t at = 4 * (3 * i + hit);
      // Half of the hits go to what follows the head.
      const std::size_t from = random.bits(at) % 2 ? stream_.size() / 2 : 0;
      damaged[from + random.bits(at + 1) % (damaged.size() - from)] ^= std::byte{1}
                                                                       << random.bits(at + 2) % 8;
    }
    std::optional<std::optional<std::vector<std::vector<std::int32_t>>>> first;
    on_every_target([&](const char* target) {
      const auto found = outcome(damaged);
      if (!first) first = found;
      ASSERT_EQ(found, *first) << "round " << i << " on " << target;
    });
    refused += !*first;
  }
  EXPECT_GT(refused, 300u);
}

TEST_F(LanesDamage, EveryShorterStreamIsRefused) {
  for (std::size_t size = 0; size < stream_.size(); ++size)
    ASSERT_FALSE(outcome(std::span(stream_).first(size))) << size;
}

/// Stripes of which words were taken away, with an index that fits.
TEST_F(LanesDamage, TruncatedStripesAreRefused) {
  std::uint32_t head, stripe;
  std::memcpy(&head, stream_.data() + 4, 4);
  std::memcpy(&stripe, stream_.data() + 8, 4);
  const std::size_t first = 12 + head;
  ASSERT_EQ(first + stripe, stream_.size());
  for (std::uint32_t size = 0; size < stripe; size += 4) {
    auto cut = stream_;
    std::memcpy(cut.data() + 8, &size, 4);
    cut.resize(first + size);
    ASSERT_FALSE(outcome(cut)) << size;
    if (size < 260) continue;
    std::uint32_t words = (size - 260) / 2;  // as many as there are left
    std::memcpy(cut.data() + first, &words, 4);
    ASSERT_FALSE(outcome(cut)) << size;
  }
}

TEST_F(LanesDamage, StripesTooManyOrOutOfOrderAreRefused) {
  auto more = stream_;
  std::uint32_t two = 2, least = 260;
  more.insert(more.begin() + 12, 4, std::byte{0});
  std::memcpy(more.data(), &two, 4);
  std::memcpy(more.data() + 12, &least, 4);
  more.insert(more.end(), stream_.end() - 260, stream_.end());
  EXPECT_FALSE(outcome(more));
  // Two grids that fill a stripe each.
  const std::vector<Tensor> large = {lanes_tensor(700, 1000, true, 1, 1),
                                     lanes_tensor(700, 1000, true, 1, 2)};
  auto stream = encode(kLanesProfile, large);
  const auto parts = codec::lanes::stream_parts(stream);
  ASSERT_EQ(parts.stripes.size(), 2u);
  std::vector<std::byte> swapped(stream.begin(),
                                 stream.begin() + (parts.stripes[0].data() - stream.data()));
  std::uint32_t sizes[2] = {static_cast<std::uint32_t>(parts.stripes[1].size()),
                            static_cast<std::uint32_t>(parts.stripes[0].size())};
  std::memcpy(swapped.data() + 8, sizes, 8);
  for (const std::size_t i : {1u, 0u})
    swapped.insert(swapped.end(), parts.stripes[i].begin(), parts.stripes[i].end());
  EXPECT_EQ(code_of([&] { decode(kLanesProfile, swapped, large); }), Errc::kCorrupt);
}

}  // namespace
}  // namespace gbcompress
