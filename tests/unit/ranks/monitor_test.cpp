#include "ranks/liveness/monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <thread>

#include "support/files.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kTimeout{20'000};
constexpr milliseconds kSoon{5'000};

/// Ranks of one job inside this process, joined as a real start would.
struct Job {
  explicit Job(int world) {
    std::vector<std::vector<Peer>> peers(static_cast<std::size_t>(world));
    for (int r = 1; r < world; ++r) {
      std::array<int, 2> fds{};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
      peers[0].push_back({r, {}, std::make_unique<Channel>(net::Fd(fds[0]))});
      peers[static_cast<std::size_t>(r)].push_back(
          {0, {}, std::make_unique<Channel>(net::Fd(fds[1]))});
    }
    for (int r = 0; r < world; ++r)
      ranks.push_back(std::make_unique<Monitor>(r, world, kTimeout, false,
                                                std::move(peers[static_cast<std::size_t>(r)])));
  }
  std::vector<std::unique_ptr<Monitor>> ranks;
};

TEST(Monitor, EveryRankHearsWhoFailedFirstAndWhy) {
  for (int culprit = 0; culprit < 4; ++culprit) {
    Job job(4);
    std::array<std::promise<void>, 4> aborted;
    for (int r = 0; r < 4; ++r)
      job.ranks[static_cast<std::size_t>(r)]->on_failure(
          [&aborted, r] { aborted[static_cast<std::size_t>(r)].set_value(); });
    job.ranks[static_cast<std::size_t>(culprit)]->report("it met a dragon");
    for (int r = 0; r < 4; ++r) {
      const auto failure = job.ranks[static_cast<std::size_t>(r)]->failure(kSoon);
      EXPECT_EQ(failure, (Failure{culprit, "it met a dragon"})) << "rank " << r;
      EXPECT_EQ(aborted[static_cast<std::size_t>(r)].get_future().wait_for(kSoon),
                std::future_status::ready);
      GBC_EXPECT_ERROR(job.ranks[static_cast<std::size_t>(r)]->check(), Errc::kFailure,
                       "it met a dragon");
      GBC_EXPECT_ERROR(job.ranks[static_cast<std::size_t>(r)]->finish(), Errc::kFailure,
                       "it met a dragon");
    }
  }
}

TEST(Monitor, ALaterFailureDoesNotReplaceTheFirst) {
  Job job(3);
  job.ranks[2]->report("first");
  ASSERT_TRUE(job.ranks[1]->failure(kSoon));
  job.ranks[1]->report("second");
  for (const auto& rank : job.ranks) EXPECT_EQ(rank->failure(kSoon), (Failure{2, "first"}));
}

TEST(Monitor, LeavingWithoutFinishIsAFailure) {
  for (std::size_t culprit : {0u, 1u}) {
    Job job(3);
    job.ranks[culprit].reset();
    for (const auto& rank : job.ranks) {
      if (!rank) continue;
      EXPECT_EQ(rank->failure(kSoon),
                (Failure{static_cast<int>(culprit), "it left before the work was done"}));
    }
  }
}

TEST(Monitor, FinishWaitsForAll) {
  Job job(3);
  std::vector<std::future<void>> ends;
  for (std::size_t r : {0u, 2u})
    ends.push_back(std::async(std::launch::async, [&, r] { job.ranks[r]->finish(); }));
  EXPECT_EQ(ends[0].wait_for(milliseconds{50}), std::future_status::timeout);
  job.ranks[1]->finish();
  for (auto& end : ends) end.get();
  job.ranks[0].reset();
  EXPECT_EQ(job.ranks[1]->failure(milliseconds{50}), std::nullopt);
  EXPECT_NO_THROW(job.ranks[2]->check());
}

TEST(Monitor, FinishEndsWhenSomebodyFails) {
  Job job(3);
  auto end = std::async(std::launch::async, [&] { job.ranks[0]->finish(); });
  job.ranks[2]->report("no");
  GBC_EXPECT_ERROR(end.get(), Errc::kFailure, "rank 2 failed first: no");
}

TEST(Monitor, Sentences) {
  EXPECT_EQ(failure_sentence({2, "it broke"}, 1), "rank 2 failed first: it broke");
  EXPECT_EQ(failure_sentence({2, "it broke"}, 2), "this rank is given up: it broke");
}

}  // namespace
}  // namespace gbcompress
