#include "ranks/rendezvous/channel.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "support/files.h"

namespace gbcompress {
namespace {

struct Pair {
  std::array<int, 2> fds{};
  Pair() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()), 0); }
};

TEST(Channel, MessagesArriveWholeAndInOrder) {
  const Pair pair;
  Channel a{net::Fd(pair.fds[0])}, b{net::Fd(pair.fds[1])};
  std::vector<Message> got;
  EXPECT_TRUE(b.receive(got));
  EXPECT_TRUE(got.empty());
  a.send(MessageKind::kBeat, "one");
  a.send(MessageKind::kDone);
  a.send(MessageKind::kFail, std::string(Channel::kMaxBody + 9, 'x'));  // cut
  EXPECT_TRUE(b.receive(got));
  ASSERT_EQ(got.size(), 3u);
  EXPECT_EQ(got[0].kind, MessageKind::kBeat);
  EXPECT_EQ(got[0].body, "one");
  EXPECT_EQ(got[1].body, "");
  EXPECT_EQ(got[2].body, std::string(Channel::kMaxBody, 'x'));
}

TEST(Channel, AFullPipeIsSentLater) {
  const Pair pair;
  Channel a{net::Fd(pair.fds[0])}, b{net::Fd(pair.fds[1])};
  constexpr int kMessages = 1000;
  for (int i = 0; i < kMessages; ++i)
    a.send(MessageKind::kBeat, std::string(4000, static_cast<char>('a' + i % 26)));
  EXPECT_TRUE(a.wants_to_send());
  std::vector<Message> got;
  while (got.size() < kMessages) {
    ASSERT_TRUE(b.receive(got));
    a.flush();
  }
  EXPECT_FALSE(a.wants_to_send());
  for (int i = 0; i < kMessages; ++i)
    EXPECT_EQ(got[static_cast<std::size_t>(i)].body,
              std::string(4000, static_cast<char>('a' + i % 26)));
}

TEST(Channel, APieceIsKeptUntilTheRestComes) {
  const Pair pair;
  Channel b{net::Fd(pair.fds[1])};
  const std::string raw("\x03\x02\x00\x00\x00ok", 7);
  std::vector<Message> got;
  for (const char byte : raw) {
    EXPECT_TRUE(got.empty());
    ASSERT_EQ(::write(pair.fds[0], &byte, 1), 1);
    EXPECT_TRUE(b.receive(got));
  }
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].body, "ok");
  ::close(pair.fds[0]);
}

TEST(Channel, LastWordsAreHeardBeforeTheEnd) {
  const Pair pair;
  Channel b{net::Fd(pair.fds[1])};
  {
    Channel a{net::Fd(pair.fds[0])};
    a.send(MessageKind::kFail, "why");
  }
  std::vector<Message> got;
  EXPECT_FALSE(b.receive(got));
  ASSERT_EQ(got.size(), 1u);
  EXPECT_EQ(got[0].body, "why");
  b.send(MessageKind::kBeat);  // nobody reads it, and nothing happens
}

TEST(Channel, NonsenseBreaksIt) {
  const Pair pair;
  Channel b{net::Fd(pair.fds[1])};
  ASSERT_EQ(::write(pair.fds[0], "GET / HTTP/1.1\r\n", 16), 16);
  std::vector<Message> got;
  EXPECT_FALSE(b.receive(got));
  EXPECT_TRUE(got.empty());
  ::close(pair.fds[0]);
}

TEST(Numbers, RoundTrip) {
  std::string text;
  append_number(text, 0x0102030405060708, 8);
  append_number(text, 0xff, 1);
  EXPECT_EQ(text, std::string("\x08\x07\x06\x05\x04\x03\x02\x01\xff"));
  std::string_view rest = text;
  std::uint64_t value = 0;
  ASSERT_TRUE(take_number(rest, 8, value));
  EXPECT_EQ(value, 0x0102030405060708u);
  EXPECT_FALSE(take_number(rest, 2, value));
  ASSERT_TRUE(take_number(rest, 1, value));
  EXPECT_EQ(value, 0xffu);
}

}  // namespace
}  // namespace gbcompress
