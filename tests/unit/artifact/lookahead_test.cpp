#include "artifact/lookahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include "base/file.h"
#include "base/random.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "support/files.h"

namespace gbcompress {
namespace {

TEST(Lookahead, GivesResultsInOrderWithinItsBudget) {
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < 300; ++i) sizes.push_back(i % 7 == 3 ? 50 : i % 5);
  std::atomic<std::int64_t> held = 0, most = 0, made = 0;
  Lookahead<std::size_t> ahead(4, sizes, 20, [&](std::size_t i) {
    const std::int64_t now = held += sizes[i];
    if (now > most) most = now;
    ++made;
    return i;
  });
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(ahead.next(), i);
    // What was taken counts until the next one is asked for.
    held -= sizes[i];
  }
  EXPECT_EQ(made, 300);
  EXPECT_LE(most, 50 + 20);
}

TEST(Lookahead, PassesTheFirstErrorOnAndEnds) {
  Lookahead<int> ahead(3, std::vector<std::int64_t>(50, 1), 10, [](std::size_t i) {
    if (i >= 5) throw std::runtime_error(std::to_string(i));
    return static_cast<int>(i);
  });
  for (int i = 0; i < 5; ++i) EXPECT_EQ(ahead.next(), i);
  try {
    ahead.next();
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "5");
  }
}

TEST(Lookahead, MayBeLeftEarly) {
  std::atomic<int> made = 0;
  {
    Lookahead<int> ahead(2, std::vector<std::int64_t>(1000, 1), 4,
                         [&](std::size_t) { return ++made; });
    ahead.next();
  }
  EXPECT_LE(made, 10);
}

TEST(SideBySide, GivesTheSameFile) {
  ArtifactWriter writer("", "");
  writer.set_profile(CodecProfile::kLanes);
  const RandomStream noise(1, "side by side");
  for (int t = 0; t < 40; ++t) {
    CodedValues values{.grid = {10 + t, 30, 0}, .step = -40 + t};
    for (std::int64_t i = 0; i < values.grid.size(); ++i)
      values.integers.push_back(
          static_cast<std::int32_t>(3 * noise.normal(static_cast<std::uint64_t>(i + 5000 * t))));
    // Names and types in another order than the file's.
    writer.add_coded("t" + std::to_string(97 * t % 40), t % 3 ? DType::kF32 : DType::kBF16,
                     {10 + t, 30}, values);
  }
  writer.add_tied("again", "t0");
  const auto reader = ArtifactReader::from_bytes(writer.encode(), "test");
  const testing::TempDir folder;
  const auto decoded = [&](int threads) {
    const auto path = folder.path() / std::to_string(threads);
    decode_to_file(reader, path, false, {.threads = threads});
    return read_text(path, 1 << 24);
  };
  const std::string alone = decoded(1);
  EXPECT_EQ(decoded(2), alone);
  EXPECT_EQ(decoded(5), alone);
}

}  // namespace
}  // namespace gbcompress
