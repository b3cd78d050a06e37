#pragma once
/// Sockets, as little as is needed.

#include <chrono>
#include <functional>
#include <string>
#include <utility>

#include "base/internal.h"

namespace gbcompress {
namespace GBC_INTERNAL net {

using Clock = std::chrono::steady_clock;

/// Owns a descriptor.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  ~Fd() { close(); }
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept;
  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  int release() noexcept { return std::exchange(fd_, -1); }
  void close() noexcept;

 private:
  int fd_ = -1;
};

/// Listens on one local address.
/// @param port  0: any free one
/// @throws Error(kFailure): the port is taken, the address is none of this machine
Fd listen_on(const std::string& address, int port);
int port_of(const Fd& socket);

/// Connects, trying again as long as there is no response: the other side may not have started yet.
/// @param between  called between two attempts, at least every 50 ms; may throw to give up
/// @throws Error(kFailure) at the deadline, with the last reason
Fd connect_to(const std::string& host, int port, Clock::time_point deadline,
              const std::function<void()>& between);

/// Whether every address of a name is this machine's loopback.
/// @throws Error(kFailure) where the name has no address
bool is_loopback(const std::string& host);

/// Where this process listens and what it tells others to connect to.
struct Listening {
  std::string bind, advertise;
};
/// @param listen  "" for loopback, an address of this machine, a network interface, or "any"
/// @param master  decides which address "any" advertises: the one that reaches it
/// @throws Error(kUsage) for an interface without an address; Error(kFailure)
Listening resolve_listen(const std::string& listen, const std::string& master, int master_port);

/// "host:port", with brackets around an IPv6 address.
std::string endpoint_text(const std::string& host, int port);

}  // namespace net
}  // namespace gbcompress
