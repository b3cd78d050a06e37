#pragma once
/// c10d's TCPStore behind our own interface.

#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "ranks/rendezvous/net.h"
#include "ranks/rendezvous/rendezvous.h"

namespace gbcompress {

class TcpKeyStore : public KeyStore {
 public:
  /// @param listener  a listening socket: serve on it; none: be a client of whoever serves there
  /// @throws Error(kFailure)
  TcpKeyStore(const std::string& host, int port, net::Fd listener,
              std::chrono::milliseconds timeout);

  void set(const std::string& key, const std::string& value) override;
  std::optional<std::string> get(const std::string& key) override;
  std::int64_t add(const std::string& key, std::int64_t addend) override;

  const c10::intrusive_ptr<c10d::Store>& c10d() const noexcept { return store_; }

 private:
  std::string endpoint_;
  c10::intrusive_ptr<c10d::Store> store_;
};

}  // namespace gbcompress
