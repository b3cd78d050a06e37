#include <gtest/gtest.h>

#include <set>

#include "golden/craft.h"
#include "golden/samples.h"

namespace gbcompress {
namespace {

using craft::Bytes;

TEST(Corruption, EveryFlippedBitIsRefused) {
  for (const auto& [name, writer] : samples::golden()) {
    Bytes bytes = writer.encode();
    ASSERT_LE(bytes.size(), 4096u) << name;
    ASSERT_EQ(craft::code_of(bytes), Errc::kFailure) << name;
    for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_NE(craft::code_of(bytes), Errc::kFailure) << name << ", bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    }
  }
}

TEST(Corruption, EveryTruncationIsRefused) {
  for (const auto& [name, writer] : samples::golden()) {
    const Bytes bytes = writer.encode();
    for (std::size_t n = 0; n < bytes.size(); ++n)
      ASSERT_EQ(craft::code_of(Bytes(bytes.begin(), bytes.begin() + n)), Errc::kTruncated)
          << name << ", " << n << " bytes";
  }
}

/// The same damage behind a digest that fits, as somebody with bad intentions would do it: whatever
/// is accepted must at least be a well-formed artifact.
TEST(Corruption, DamageBehindAFittingDigestNeverCrashes) {
  for (const auto& [name, writer] : samples::golden()) {
    const Bytes bytes = writer.encode();
    const Bytes body(bytes.begin() + 24, bytes.end() - 32);
    const auto stored = static_cast<std::size_t>(bytes[16]) | static_cast<std::size_t>(bytes[17])
                                                                  << 8;
    const auto raw = static_cast<std::int64_t>(bytes[20]) | static_cast<std::int64_t>(bytes[21])
                                                                << 8;
    for (std::size_t bit = 0; bit < 8 * body.size(); ++bit) {
      Bytes changed = body;
      changed[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      const auto middle = changed.begin() + static_cast<std::ptrdiff_t>(stored);
      craft::code_of(
          craft::file(Bytes(changed.begin(), middle), Bytes(middle, changed.end()), raw));
    }
  }
}

TEST(Corruption, HandmadeFilesGiveTheirExactCode) {
  std::set<std::string> names;
  for (const auto& bad : craft::bad_files()) {
    EXPECT_EQ(errc_name(craft::code_of(bad.bytes)), errc_name(bad.code)) << bad.name;
    EXPECT_TRUE(names.insert(bad.name).second) << bad.name;
  }
  EXPECT_GE(names.size(), 80u);
}

/// So that the files above are refused for what they are named after.
TEST(Corruption, TheirPatternIsAccepted) {
  const Bytes three = craft::to_bytes("abc"), theta = craft::linear_section();
  EXPECT_EQ(craft::code_of(craft::file(craft::header(3, {craft::plain_entry("p", three)}), three)),
            Errc::kFailure);
  EXPECT_EQ(
      craft::code_of(craft::file(craft::header(64, {craft::linear_entry("w", theta)}), theta)),
      Errc::kFailure);
  EXPECT_EQ(
      craft::code_of(craft::file(
          craft::header(6, {craft::plain_entry("../p", three), {{"n", "/q"}, {"r", 0}}}), three)),
      Errc::kFailure);
}

}  // namespace
}  // namespace gbcompress
