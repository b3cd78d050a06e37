#pragma once
/// Short framed messages over one connection that never blocks: byte kind, 4 bytes length
/// (little-endian), body.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal.h"
#include "ranks/rendezvous/net.h"

namespace GBC_INTERNAL gbcompress {

enum class MessageKind : std::uint8_t {
  kHello = 1,    ///< JSON: who connects
  kWelcome = 2,  ///< JSON: everybody is there
  kBeat = 3,     ///< 8 bytes: collectives entered; 1 byte: kind of the last; 4 bytes: the rank
                 ///< awaited in a transfer, plus 1; 4 bytes: how many such waits there were
  kFail = 4,     ///< 4 bytes: first failed rank; text: its cause
  kDone = 5,     ///< this rank has finished its work
  kAllDone = 6,  ///< every rank has
};

struct Message {
  MessageKind kind;
  std::string body;
};

class Channel {
 public:
  /// Longest body; a longer text is cut by send(), a longer message breaks the channel.
  static constexpr std::size_t kMaxBody = 16 * 1024;

  explicit Channel(net::Fd socket);

  /// Queues and sends what the socket takes.
  void send(MessageKind kind, std::string_view body = {});
  void flush();
  /// Reads what is there. @return false when the other side is gone or sent nonsense; what arrived
  ///         before is in `into` all the same
  bool receive(std::vector<Message>& into);

  int fd() const noexcept { return socket_.get(); }
  bool wants_to_send() const noexcept { return !out_.empty() && !broken_; }

 private:
  net::Fd socket_;
  std::string in_, out_;
  bool broken_ = false;
};

/// Numbers inside bodies, little-endian.
void append_number(std::string& to, std::uint64_t value, int bytes);
/// @return false where `from` is too short
bool take_number(std::string_view& from, int bytes, std::uint64_t& value);

}  // namespace gbcompress
