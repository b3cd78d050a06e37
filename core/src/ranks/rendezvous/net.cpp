#include "ranks/rendezvous/net.h"

#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <system_error>

#include "gbcompress/error.h"

namespace gbcompress::net {
namespace {

constexpr int kBacklog = 1024;
constexpr int kListenAttempts = 6;  // at most 62 ms of waiting in all
constexpr std::chrono::milliseconds kRetry{50};
constexpr const char* kIpv4Loopback = "127.0.0.1";

std::string reason(int code) { return std::generic_category().message(code); }

struct FreeAddresses {
  void operator()(addrinfo* list) const { ::freeaddrinfo(list); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// @throws Error(kFailure)
Addresses resolve(const std::string& host, int port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int status = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (status != 0 || !found)
    throw Error(Errc::kFailure, "the address of \"" + printable(host) +
                                    "\" cannot be found: " + ::gai_strerror(status));
  return Addresses(found);
}

bool loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET)
    return (ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24) == 127;
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr);
  return false;
}

std::string numeric(const sockaddr* address, socklen_t size) {
  char text[NI_MAXHOST];
  if (::getnameinfo(address, size, text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "";
  return text;
}

/// A port of the range that the system chooses from, with no listener, may be given to the very
/// socket that tries to connect to it: TCP then connects the socket with itself.
bool connected_with_itself(const Fd& socket) {
  sockaddr_storage own{}, other{};
  socklen_t own_size = sizeof own, other_size = sizeof other;
  return ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &own_size) == 0 &&
         ::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&other), &other_size) == 0 &&
         own_size == other_size && std::memcmp(&own, &other, own_size) == 0;
}

/// One attempt. @return 0 or errno
int try_connect(const addrinfo& address, std::chrono::milliseconds limit, Fd& into) {
  Fd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return errno;
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) return errno;
    pollfd ready{socket.get(), POLLOUT, 0};
    const int count = ::poll(&ready, 1, static_cast<int>(limit.count()));
    if (count < 0) return errno;
    if (count == 0) return ETIMEDOUT;
    int code = 0;
    socklen_t size = sizeof code;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &code, &size);
    if (code != 0) return code;
  }
  if (connected_with_itself(socket)) return ECONNREFUSED;
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  into = std::move(socket);
  return 0;
}

/// The local address from which packets to `host` leave.
std::string address_towards(const std::string& host, int port) {
  const Addresses addresses = resolve(host, port, 0);
  Fd socket(::socket(addresses->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  // Connecting a datagram socket sends nothing; it only chooses a route.
  if (!socket || ::connect(socket.get(), addresses->ai_addr, addresses->ai_addrlen) != 0 ||
      ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size) != 0)
    throw Error(Errc::kFailure,
                "there is no way from here to " + printable(host) + ": " + reason(errno));
  return numeric(reinterpret_cast<sockaddr*>(&own), size);
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) throw Error(Errc::kFailure, "network interfaces: " + reason(errno));
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> owner(list, ::freeifaddrs);
  std::string ipv6;
  for (const ifaddrs* one = list; one; one = one->ifa_next) {
    if (name != one->ifa_name || !one->ifa_addr) continue;
    if (one->ifa_addr->sa_family == AF_INET) return numeric(one->ifa_addr, sizeof(sockaddr_in));
    if (one->ifa_addr->sa_family == AF_INET6 && ipv6.empty())
      ipv6 = numeric(one->ifa_addr, sizeof(sockaddr_in6));
  }
  if (ipv6.empty())
    throw Error(Errc::kUsage, "the interface \"" + printable(name) + "\" has no address");
  return ipv6;
}

/// One that listens, or none and errno.
/// @throws Error(kFailure): no socket can be made
Fd try_to_listen(const addrinfo* address) {
  Fd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) throw Error(Errc::kFailure, "no socket can be made: " + reason(errno));
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), address->ai_addr, address->ai_addrlen) == 0 &&
      ::listen(socket.get(), kBacklog) == 0)
    return socket;
  const int why = errno;
  socket.close();
  errno = why;
  return {};
}

}  // namespace

Fd& Fd::operator=(Fd&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Fd::close() noexcept {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

Fd listen_on(const std::string& address, int port) {
  const Addresses addresses = resolve(address, port, AI_PASSIVE);
  // Linux announces a listener before it looks for others on the port, so that of two processes
  // that listen at the same moment both can be refused. Whoever waits for a time of its own and
  // tries again finds the port free, or taken by one that has it.
  std::minstd_rand wait(static_cast<unsigned>(Clock::now().time_since_epoch().count()));
  for (int attempt = 1;; ++attempt) {
    Fd socket = try_to_listen(addresses.get());
    if (socket) return socket;
    if (errno != EADDRINUSE || attempt == kListenAttempts) break;
    ::poll(nullptr, 0, static_cast<int>(1 + wait() % (1u << attempt)));
  }
  if (errno == EADDRINUSE)
    throw Error(Errc::kFailure, "port " + std::to_string(port) + " of " + printable(address) +
                                    " is in use, by another job or a second rank 0; choose "
                                    "another port (MASTER_PORT or `master`)");
  if (errno == EADDRNOTAVAIL)
    throw Error(
        Errc::kFailure,
        printable(address) +
            " is no address of this machine, so rank 0 cannot listen on "
            "it; give `listen` ADDRESS of this machine, `listen` INTERFACE or `listen` any");
  throw Error(Errc::kFailure,
              "rank 0 cannot listen on " + endpoint_text(address, port) + ": " + reason(errno));
}

int port_of(const Fd& socket) {
  sockaddr_storage own{};
  socklen_t size = sizeof own;
  ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&own), &size);
  return ntohs(own.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(own).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(own).sin_port);
}

Fd connect_to(const std::string& host, int port, Clock::time_point deadline,
              const std::function<void()>& between) {
  const Addresses addresses = resolve(host, port, 0);
  int code = ETIMEDOUT;
  do {
    for (const addrinfo* one = addresses.get(); one; one = one->ai_next) {
      between();
      // An unreachable machine answers nothing; patience with one address must not use up all.
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      const auto limit = std::clamp(left, std::chrono::milliseconds{1}, kRetry * 20);
      Fd socket;
      const int result = try_connect(*one, limit, socket);
      if (result == 0) return socket;
      code = result;
    }
    ::poll(nullptr, 0, static_cast<int>(kRetry.count()));
  } while (Clock::now() < deadline);
  throw Error(Errc::kFailure,
              "there is no response at " + endpoint_text(host, port) + " (" + reason(code) + ")");
}

bool is_loopback(const std::string& host) {
  const Addresses addresses = resolve(host, 0, 0);
  for (const addrinfo* one = addresses.get(); one; one = one->ai_next)
    if (!loopback(one->ai_addr)) return false;
  return true;
}

Listening resolve_listen(const std::string& listen, const std::string& master, int master_port) {
  if (listen.empty()) {
    const bool ipv6 = master.find(':') != std::string::npos;
    const std::string own = ipv6 ? "::1" : kIpv4Loopback;
    return {own, own};
  }
  if (listen == "any") {
    const bool ipv6 = master.find(':') != std::string::npos;
    return {ipv6 ? "::" : "0.0.0.0", address_towards(master, master_port)};
  }
  const std::string own = ::if_nametoindex(listen.c_str()) ? address_of_interface(listen) : listen;
  return {own, own};
}

std::string endpoint_text(const std::string& host, int port) {
  const bool brackets = host.find(':') != std::string::npos;
  return printable((brackets ? "[" + host + "]" : host) + ":" + std::to_string(port));
}

}  // namespace gbcompress::net
