#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <future>
#include <stdexcept>
#include <thread>

#include "ranks/collectives/group_state.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

std::unique_ptr<Monitor> monitor_of(int rank, int peer, int socket) {
  std::vector<Peer> peers;
  peers.push_back({peer, {}, std::make_unique<Channel>(net::Fd(socket))});
  return std::make_unique<Monitor>(rank, 2, milliseconds{20'000}, false, std::move(peers));
}

/// The connection of a transfer may close before the news of the failure has come.
TEST(Transfers, OneThatCannotStartNamesTheRankThatFailedFirst) {
  std::array<int, 2> fds{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0);
  const std::unique_ptr<Monitor> first = monitor_of(0, 1, fds[0]);
  const auto state = std::make_shared<GroupState>();
  state->rank = 1;
  state->world = 2;
  state->monitor = monitor_of(1, 0, fds[1]);
  auto late = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(milliseconds{50});
    first->report("it broke");
  });
  const auto start = [&] {
    state->start(
        Collective::kSend,
        []() -> TransportWorkPtr { throw std::runtime_error("Connection closed"); }, 0);
  };
  GBC_EXPECT_ERROR(start(), Errc::kFailure, "rank 0 failed first: it broke");
  late.get();
}

}  // namespace
}  // namespace gbcompress
