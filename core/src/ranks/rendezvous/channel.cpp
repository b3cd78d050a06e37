#include "ranks/rendezvous/channel.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>

namespace gbcompress {
namespace {
constexpr std::size_t kHead = 5;
}

Channel::Channel(net::Fd socket) : socket_(std::move(socket)) {
  ::fcntl(socket_.get(), F_SETFL, ::fcntl(socket_.get(), F_GETFL) | O_NONBLOCK);
}

void Channel::send(MessageKind kind, std::string_view body) {
  body = body.substr(0, kMaxBody);
  out_ += static_cast<char>(kind);
  append_number(out_, body.size(), 4);
  out_ += body;
  flush();
}

void Channel::flush() {
  while (wants_to_send()) {
    const ssize_t sent = ::send(socket_.get(), out_.data(), out_.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      out_.erase(0, static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return;
    } else if (errno != EINTR) {
      broken_ = true;  // receive() tells
    }
  }
}

bool Channel::receive(std::vector<Message>& into) {
  char buffer[4096];
  bool open = true;
  for (;;) {
    const ssize_t count = ::recv(socket_.get(), buffer, sizeof buffer, 0);
    if (count > 0) {
      in_.append(buffer, static_cast<std::size_t>(count));
      if (in_.size() > 4 * kMaxBody) break;  // the rest at the next call
      continue;
    }
    if (count < 0 && errno == EINTR) continue;
    open = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    break;
  }
  std::string_view rest = in_;
  while (rest.size() >= kHead) {
    std::string_view head = rest.substr(1);
    std::uint64_t length = 0;
    take_number(head, 4, length);
    if (length > kMaxBody) return false;
    if (rest.size() - kHead < length) break;
    into.push_back({static_cast<MessageKind>(rest[0]), std::string(rest.substr(kHead, length))});
    rest.remove_prefix(kHead + length);
  }
  in_.erase(0, in_.size() - rest.size());
  return open;
}

void append_number(std::string& to, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(value >> (8 * i) & 0xff);
}

bool take_number(std::string_view& from, int bytes, std::uint64_t& value) {
  if (from.size() < static_cast<std::size_t>(bytes)) return false;
  value = 0;
  for (int i = 0; i < bytes; ++i)
    value |=
        static_cast<std::uint64_t>(static_cast<unsigned char>(from[static_cast<std::size_t>(i)]))
        << (8 * i);
  from.remove_prefix(static_cast<std::size_t>(bytes));
  return true;
}

}  // namespace gbcompress
