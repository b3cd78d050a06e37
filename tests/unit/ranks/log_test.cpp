#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>

#include "gbcompress/ranks.h"
#include "ranks/launch/process.h"
#include "ranks/liveness/seconds.h"

namespace gbcompress {
namespace {

TEST(RankLog, PrefixesOnlyAmongSeveral) {
  const auto line_of = [](const char* text) {
    ::testing::internal::CaptureStderr();
    log_line(text);
    return ::testing::internal::GetCapturedStderr();
  };
  set_log_rank(0, 1);
  EXPECT_EQ(line_of("hello"), "gbcompress: hello\n");
  EXPECT_TRUE(speaks_for_all());
  set_log_rank(2, 4);
  EXPECT_EQ(line_of("hello"), "gbcompress: [rank 2] hello\n");
  EXPECT_FALSE(speaks_for_all());
  EXPECT_EQ(rank_prefix(), "[rank 2] ");
  set_log_rank(0, 1);
}

TEST(Seconds, Text) {
  EXPECT_EQ(seconds_text(std::chrono::milliseconds{120'000}), "120 s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds{500}), "0.5 s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds{2'250}), "2.25 s");
  EXPECT_EQ(seconds_text(std::chrono::milliseconds{1}), "0.001 s");
}

TEST(Process, KnowsItself) {
  const ProcessName self = this_process();
  EXPECT_EQ(self.pid, ::getpid());
  EXPECT_EQ(self.host, this_process().host);
}

TEST(LauncherWatch, ALivingParentHasNotEnded) {
  const LauncherWatch watch;
  EXPECT_FALSE(watch.ended());
}

}  // namespace
}  // namespace gbcompress
