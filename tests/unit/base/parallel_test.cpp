#include "base/parallel.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace gbcompress {
namespace {

TEST(BoundedTasks, KeepWithinTheirSizeAndThreads) {
  const std::vector<std::int64_t> sizes = {3, 70, 5, 0, 100, 20, 20, 1, 60, 45, 45, 2, 9, 0, 33};
  constexpr std::int64_t kMost = 50;  // the largest item has more
  for (const int threads : {1, 2, 5}) {
    std::mutex mutex;
    std::vector<std::size_t> begun;
    std::int64_t size = 0, most = 0;
    int busy = 0, most_busy = 0;
    bounded_tasks(sizes, kMost, threads, [&](std::size_t i, int mine) {
      {
        const std::lock_guard lock(mutex);
        begun.push_back(i);
        most = std::max(most, size += sizes[i]);
        most_busy = std::max(most_busy, busy += mine);
        EXPECT_GE(mine, 1);
      }
      for (int i = 0; i < 100; ++i) std::this_thread::yield();  // so that others begin meanwhile
      const std::lock_guard lock(mutex);
      size -= sizes[i];
      busy -= mine;
    });
    std::sort(begun.begin(), begun.end());
    ASSERT_EQ(begun.size(), sizes.size());
    for (std::size_t i = 0; i < begun.size(); ++i) EXPECT_EQ(begun[i], i);
    EXPECT_LE(most, 100);
    EXPECT_LE(most_busy, threads);
  }
}

TEST(BoundedTasks, TheLargestHasAllThreads) {
  std::vector<int> threads(3);
  bounded_tasks({10, 40, 20}, 1, 8, [&](std::size_t i, int mine) { threads[i] = mine; });
  EXPECT_EQ(threads, (std::vector<int>{2, 8, 4}));
}

TEST(BoundedTasks, NoneIsBegunAfterAnException) {
  for (const int threads : {1, 3}) {
    std::atomic<int> begun = 0;
    EXPECT_THROW(bounded_tasks(std::vector<std::int64_t>(50, 7), 7, threads,
                               [&](std::size_t, int) {
                                 ++begun;
                                 throw std::runtime_error("no");
                               }),
                 std::runtime_error);
    EXPECT_EQ(begun, 1);  // of size 7 one at a time
  }
  bounded_tasks({}, 1, 4, [](std::size_t, int) { FAIL(); });
}

}  // namespace
}  // namespace gbcompress
