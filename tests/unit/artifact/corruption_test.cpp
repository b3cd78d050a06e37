#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>

#include "base/random.h"
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

/// A file of exactly 64 KiB, most of it one coded tensor.
Bytes file_of_64_kib(CodecProfile profile) {
  constexpr std::size_t kBytes = 65'536;
  const RandomStream random(3, "64 KiB");
  CodedValues values{.grid = {.rows = 256, .cols = 480}, .step = -64};
  for (std::int64_t i = 0; i < values.grid.size(); ++i)
    values.integers.push_back(static_cast<std::int32_t>(random.bits(i) % 16) - 8);
  std::size_t padding = 1;
  Bytes file;
  for (int tries = 0; tries < 4 && file.size() != kBytes; ++tries) {
    Bytes noise;
    for (std::size_t i = 0; i < padding; ++i)
      noise.push_back(static_cast<std::byte>(random.bits((1 << 20) + i)));
    ArtifactWriter writer("", "");
    writer.set_profile(profile);
    writer.add_coded("w", DType::kF32, {256, 480}, values);
    writer.add_plain("noise", DType::kU8, {static_cast<std::int64_t>(padding)}, noise);
    file = writer.encode();
    padding += kBytes - file.size();
  }
  EXPECT_EQ(file.size(), kBytes);
  return file;
}

/// Every bit with GBC_ALL_FLIPS=1 (reliability.md); else each of both ends, and a sample
/// between.
TEST(Corruption, FlipsOfFilesOf64KiBAreRefused) {
  constexpr std::size_t kEnds = 8 * 64;
  const std::size_t stride = std::getenv("GBC_ALL_FLIPS") ? 1 : 509;
  for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
    Bytes bytes = file_of_64_kib(profile);
    ASSERT_EQ(craft::code_of(bytes), Errc::kFailure);
    const std::size_t bits = 8 * bytes.size();
    std::size_t refused = 0;
    for (std::size_t bit = 0; bit < bits; ++refused) {
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      ASSERT_NE(craft::code_of(bytes), Errc::kFailure) << profile_name(profile) << ", bit " << bit;
      bytes[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
      bit += bit < kEnds || bit + kEnds >= bits ? 1 : std::min(stride, bits - kEnds - bit);
    }
    std::printf("%s: %zu flips of %zu refused\n", std::string(profile_name(profile)).c_str(),
                refused, bits);
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

/// What an input may take. The address sanitizer makes every access take several times as long, and
/// keeps what was freed, so that the process's peak says nothing; tests/fuzz counts it there.
#ifdef __has_feature  // Clang
#define GBC_SANITIZED __has_feature(address_sanitizer)
#elif defined(__SANITIZE_ADDRESS__)
#define GBC_SANITIZED 1
#else
#define GBC_SANITIZED 0
#endif
#if GBC_SANITIZED
constexpr double kSeconds = 10.0;
constexpr std::size_t kStride = 11;  // bits
long peak_kib() { return 0; }
#else
constexpr double kSeconds = 1.0;
constexpr std::size_t kStride = 1;
long peak_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}
#endif

/// The same damage behind a digest that fits, as somebody with bad intentions would do it: whatever
/// is accepted must at least be a well-formed artifact, and costs no more than a second and 64 MiB.
/// Every bit; under a sanitizer with GBC_ALL_FLIPS=1, else a sample of them.
TEST(Corruption, DamageBehindAFittingDigestIsBounded) {
  const std::size_t stride = std::getenv("GBC_ALL_FLIPS") ? 1 : kStride;
  const long before = peak_kib();
  std::clock_t slowest = 0;
  for (const auto& [name, writer] : samples::golden()) {
    const Bytes bytes = writer.encode();
    const craft::Parts good = craft::parts(bytes);
    for (Bytes craft::Parts::*part : {&craft::Parts::header, &craft::Parts::sections})
      for (std::size_t bit = 0; bit < 8 * (good.*part).size(); bit += stride) {
        craft::Parts changed = good;
        (changed.*part)[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
        const Bytes file = craft::file(changed.header, changed.sections, changed.header_raw);
        const std::clock_t start = std::clock();
        craft::code_of(file);
        slowest = std::max(slowest, std::clock() - start);
      }
  }
  EXPECT_LT(static_cast<double>(slowest) / CLOCKS_PER_SEC, kSeconds);
  EXPECT_LT(peak_kib() - before, 64 << 10);
}

/// Lengths that lie: the largest that a header may declare, in front of a stream of a few bytes.
TEST(Corruption, LyingLengthsAreBounded) {
  const long before = peak_kib();
  const auto refused = [](nlohmann::json entry, const nlohmann::json& more, const Bytes& stream) {
    nlohmann::json header = craft::header({entry});
    header["u"] = {0};
    header.update(more);
    const std::clock_t start = std::clock();
    const Errc code = craft::code_of(craft::file(header, stream));
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, kSeconds) << header;
    return code;
  };
  const RandomStream random(1, "lying lengths");
  for (std::size_t n : {0u, 1u, 8u, 100u, 3000u}) {
    Bytes stream;
    for (std::size_t i = 0; i < n; ++i) stream.push_back(static_cast<std::byte>(random.bits(i)));
    for (const nlohmann::json& shape : {nlohmann::json{64, 1 << 20},
                                        {1 << 20},
                                        {1 << 16, 1 << 10},
                                        {1 << 23, 8},
                                        {1 << 20, 1},
                                        {4, 4, 1 << 11, 1 << 11}}) {
      const nlohmann::json small = {{"n", "w"}, {"h", shape}, {"k", 0}};
      EXPECT_NE(refused(small, nlohmann::json::object(), stream), Errc::kFailure) << n << shape;
      EXPECT_NE(refused(small, {{"v", {n}}}, stream), Errc::kFailure) << n << shape;
    }
    const nlohmann::json large = {{"n", "w"}, {"h", {1 << 18, 1 << 18}}, {"k", 1}};
    EXPECT_NE(refused(large, {{"v", {n}}}, stream), Errc::kFailure) << n;
  }
  EXPECT_LT(peak_kib() - before, 64 << 10);
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
  EXPECT_EQ(craft::code_of(craft::file(craft::header({craft::plain_entry("p", three)}), three)),
            Errc::kFailure);
  EXPECT_EQ(craft::code_of(craft::file(craft::header({craft::linear_entry("w")}), theta)),
            Errc::kFailure);
  EXPECT_EQ(
      craft::code_of(craft::file(
          craft::header({craft::plain_entry("../p", three), {{"n", "/q"}, {"r", 0}}}), three)),
      Errc::kFailure);
}

}  // namespace
}  // namespace gbcompress
