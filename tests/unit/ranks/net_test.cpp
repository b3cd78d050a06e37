#include "ranks/rendezvous/net.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Two threads meet here without a system call, so that what follows happens at the same moment.
class SpinBarrier {
 public:
  void wait() {
    const int round = round_.load();
    if (came_.fetch_add(1) == 1) {
      came_ = 0;
      ++round_;
    } else {
      while (round_.load() == round) {
      }
    }
  }

 private:
  std::atomic<int> came_{0}, round_{0};
};

// Plain bind() and listen() refuse both of two such listeners about once in ten thousand rounds on
// two cores; 20,000 rounds of this loop took 3 minutes and refused none.
TEST(Net, OneOfTwoListenersAtTheSameMomentGetsThePort) {
  constexpr int kRounds = 300;
  const int port = net::port_of(net::listen_on("127.0.0.1", 0));
  SpinBarrier barrier;
  std::array<std::atomic<bool>, 2> got{};
  std::atomic<int> wrong{0};
  const auto listen = [&](int self) {
    for (int round = 0; round < kRounds; ++round) {
      barrier.wait();
      net::Fd socket;
      try {
        socket = net::listen_on("127.0.0.1", port);
      } catch (const Error&) {
      }
      got[self] = static_cast<bool>(socket);
      barrier.wait();
      if (self == 0 && got[0] == got[1]) ++wrong;
      socket.close();
      barrier.wait();
    }
  };
  std::thread other(listen, 1);
  listen(0);
  other.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Net, ATakenPortIsRefusedInASentence) {
  const net::Fd taken = net::listen_on("127.0.0.1", 0);
  try {
    net::listen_on("127.0.0.1", net::port_of(taken));
    FAIL() << "the port was given twice";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("is in use, by another job or a second rank 0"),
              std::string::npos);
  }
}

}  // namespace
}  // namespace gbcompress
