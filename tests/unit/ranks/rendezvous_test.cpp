#include "ranks/rendezvous/rendezvous.h"
#include "ranks/collectives/gathering.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <future>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "support/files.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

class MapStore : public KeyStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
  }
  std::optional<std::string> get(const std::string& key) override {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(key);
    return found == values_.end() ? std::nullopt : std::optional(found->second);
  }
  std::int64_t add(const std::string& key, std::int64_t addend) override {
    const std::lock_guard lock(mutex_);
    return sums_[key] += addend;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::int64_t> sums_;
};

struct Meeting {
  MapStore store;
  milliseconds limit{10'000};
  std::function<void()> between = [] {};

  std::future<std::vector<Peer>> start(int rank, int world) {
    const MeetOptions options{
        rank, world, {"127.0.0.1", "127.0.0.1"}, "job/", net::Clock::now() + limit, between};
    return std::async(std::launch::async, [this, options] { return meet(store, options); });
  }
};

std::string message_of(std::future<std::vector<Peer>>& rank, Errc code = Errc::kFailure) {
  try {
    rank.get();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "it met";
  return "";
}

TEST(Rendezvous, EverybodyIsConnectedToRank0) {
  Meeting meeting;
  std::vector<std::future<std::vector<Peer>>> ranks;
  for (int r = 4; r >= 0; --r) ranks.push_back(meeting.start(r, 5));
  std::vector<std::vector<Peer>> peers;
  for (auto& rank : ranks) peers.push_back(rank.get());
  const std::vector<Peer>& all = peers.back();  // of rank 0
  ASSERT_EQ(all.size(), 4u);
  for (int r = 1; r < 5; ++r) {
    const Peer& there = all[static_cast<std::size_t>(r - 1)];
    EXPECT_EQ(there.rank, r);
    EXPECT_EQ(there.process.pid, this_process().pid);
    there.channel->send(MessageKind::kFail, std::to_string(r));
    const auto& own = peers[static_cast<std::size_t>(4 - r)];
    ASSERT_EQ(own.size(), 1u);
    EXPECT_EQ(own[0].rank, 0);
    std::vector<Message> got;
    while (got.empty()) ASSERT_TRUE(own[0].channel->receive(got));
    EXPECT_EQ(got[0].body, std::to_string(r));
  }
}

TEST(Rendezvous, TheSameRankTwice) {
  Meeting meeting;
  std::vector<std::future<std::vector<Peer>>> ranks;
  for (const int r : {0, 1, 1}) ranks.push_back(meeting.start(r, 3));
  for (auto& rank : ranks)
    EXPECT_NE(message_of(rank).find("two processes have rank 1"), std::string::npos);
}

/// What closing a connection with unread bytes does: it is reset, and nothing can be said over it.
TEST(Rendezvous, TheReasonIsHeardWhenTheConnectionIsReset) {
  Meeting meeting;
  net::Fd listener = net::listen_on("127.0.0.1", 0);
  meeting.store.set("job/control",
                    nlohmann::json({{"host", "127.0.0.1"},
                                    {"port", net::port_of(listener)},
                                    {"world", 2},
                                    {"token", "t"},
                                    {"process", {{"host", ""}, {"machine", ""}, {"pid", 1}}}})
                        .dump());
  auto one = meeting.start(1, 2);
  {
    const net::Fd rank_1(::accept(listener.get(), nullptr, nullptr));
    char first_byte = 0;
    ASSERT_EQ(::recv(rank_1.get(), &first_byte, 1, MSG_PEEK), 1);
    meeting.store.set("job/failed", "the cause");
  }
  EXPECT_EQ(message_of(one), "the cause");
}

TEST(Rendezvous, Rank0StaysUntilEverybodyHasLeft) {
  Meeting meeting;
  meeting.store.add("job/came", 1);  // a rank that is slow to look
  meeting.store.set("job/failed", "the cause");
  auto zero = meeting.start(0, 2);
  EXPECT_EQ(zero.wait_for(milliseconds{200}), std::future_status::timeout);
  meeting.store.add("job/left", 1);
  EXPECT_EQ(message_of(zero), "the cause");
}

TEST(Rendezvous, Rank0DoesNotWaitForeverForThoseWhoCame) {
  Meeting meeting;
  meeting.store.add("job/came", 1);  // killed, say
  meeting.store.set("job/failed", "the cause");
  auto zero = meeting.start(0, 2);
  EXPECT_EQ(zero.wait_for(std::chrono::seconds{60}), std::future_status::ready);
  EXPECT_EQ(message_of(zero), "the cause");
}

TEST(Rendezvous, MissingRanksAreNamed) {
  Meeting meeting;
  meeting.limit = milliseconds{2000};
  auto zero = meeting.start(0, 20), three = meeting.start(3, 20);
  for (auto* rank : {&zero, &three})
    EXPECT_EQ(message_of(*rank), "ranks 1, 2, 4, 5, 6, 7, 8, 9 and 10 more did not come in time");
}

TEST(Rendezvous, NoRank0) {
  Meeting meeting;
  meeting.limit = milliseconds{100};
  auto one = meeting.start(1, 2);
  EXPECT_EQ(message_of(one), "rank 0 did not start in time");
}

TEST(Rendezvous, GivingUpFromOutside) {
  Meeting meeting;
  meeting.between = [] { throw Error(Errc::kInterrupted, "stop"); };
  auto zero = meeting.start(0, 2);
  message_of(zero, Errc::kInterrupted);
}

TEST(Rendezvous, StrangersAreTurnedAwayAndDisturbNobody) {
  Meeting meeting;
  auto zero = meeting.start(0, 2);
  std::optional<std::string> control;
  while (!(control = meeting.store.get("job/control"))) std::this_thread::yield();
  const int port = nlohmann::json::parse(*control).at("port");
  const auto deadline = net::Clock::now() + std::chrono::seconds{5};
  std::vector<net::Fd> strangers;
  for (const std::string& words :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x01\x02\x00\x00\x00{}", 7),
        std::string("\x01\x0d\x00\x00\x00{\"token\": 17}", 18),
        std::string("\x01\x01\x00\x00\x00[", 6), std::string()}) {
    strangers.push_back(net::connect_to("127.0.0.1", port, deadline, [] {}));
    ::send(strangers.back().get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  auto one = meeting.start(1, 2);
  EXPECT_EQ(zero.get().size(), 1u);
  EXPECT_EQ(one.get().size(), 1u);
}

/// More connections than rank 0 may have descriptors, each of them with half a message; new ones
/// come all the time.
TEST(Rendezvous, ACrowdOfStrangersStallsNobody) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  Meeting meeting;
  auto zero = meeting.start(0, 2);
  std::optional<std::string> control;
  while (!(control = meeting.store.get("job/control"))) std::this_thread::yield();
  const int port = nlohmann::json::parse(*control).at("port");
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t crowd = ::fork();
  if (crowd == 0) {
    sockaddr_in to{.sin_family = AF_INET,
                   .sin_port = htons(static_cast<std::uint16_t>(port)),
                   .sin_addr = {htonl(INADDR_LOOPBACK)},
                   .sin_zero = {}};
    std::array<int, 900> sockets{};
    for (std::size_t n = 0;; ++n) {
      if (n >= sockets.size()) ::close(sockets[n % sockets.size()]);
      const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
      sockets[n % sockets.size()] = fd;
      if (::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) ::_exit(1);
      ::send(fd, "\x01\x0d\x00\x00\x00{", 6, MSG_NOSIGNAL);
      if (n + 1 == sockets.size() && ::write(ready[1], "x", 1) != 1) ::_exit(2);
    }
  }
  rlimit few = before;
  few.rlim_cur = 400;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  char there = 0;
  EXPECT_EQ(::read(ready[0], &there, 1), 1);
  auto one = meeting.start(1, 2);
  EXPECT_EQ(zero.get().size(), 1u);
  EXPECT_EQ(one.get().size(), 1u);
  ::setrlimit(RLIMIT_NOFILE, &before);
  ::kill(crowd, SIGKILL);
  ::waitpid(crowd, nullptr, 0);
  for (const int fd : ready) ::close(fd);
}

TEST(Rendezvous, ForeignStoreContentIsAnError) {
  for (const char* text : {"nonsense", "{}", "[]", "{\"world\":\"2\"}"}) {
    Meeting meeting;
    meeting.store.set("job/control", text);
    auto one = meeting.start(1, 2);
    EXPECT_NE(message_of(one).find("malformed"), std::string::npos) << text;
  }
}

TEST(Rendezvous, OnlyTheWholeTokenIsKnown) {
  const MeetOptions options{.rank = 3, .world = 4};
  const std::string token = "0123456789abcdef";
  const auto hello = [&](const std::string& text) {
    return read_hello({MessageKind::kHello, text}, token);
  };
  const auto known = hello(hello_text(options, token));
  ASSERT_TRUE(known.has_value());
  EXPECT_EQ(known->rank, 3);
  EXPECT_EQ(known->process.pid, this_process().pid);
  for (const std::string& wrong : {std::string(), token.substr(1), token.substr(0, 15), token + "0",
                                   "1" + token.substr(1), token.substr(0, 15) + "e"})
    EXPECT_FALSE(hello(hello_text(options, wrong)).has_value()) << wrong;
  for (const char* stranger :
       {"", "[]", "{}", "{\"token\":17}", "{\"token\":[\"0123456789abcdef\"]}", "\xff\xfe"})
    EXPECT_FALSE(hello(stranger).has_value()) << stranger;
  EXPECT_FALSE(read_hello({MessageKind::kBeat, hello_text(options, token)}, token).has_value());
  EXPECT_THROW(hello("{\"token\":\"" + token + "\",\"protocol\":2}"), Error);
}

TEST(Rendezvous, ANumberThatNoIntHoldsIsMalformed) {
  const std::string token = "0123456789abcdef";
  const auto hello = [&](const char* key, const std::string& number) {
    auto text = nlohmann::json::parse(hello_text({.rank = 3, .world = 4}, token));
    (key == std::string("pid") ? text["process"] : text)[key] = nlohmann::json::parse(number);
    return read_hello({MessageKind::kHello, text.dump()}, token);
  };
  EXPECT_EQ(hello("rank", "2147483647")->rank, 2'147'483'647);
  for (const char* key : {"protocol", "rank", "pid"})
    for (const char* number :
         {"8e126", "-8e126", "1.5", "2147483648", "-1", "18446744073709551615"})
      EXPECT_THROW(hello(key, number), nlohmann::json::exception) << key << " " << number;
}

}  // namespace
}  // namespace gbcompress
