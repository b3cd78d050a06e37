#include "ranks/backends/tcp_store.h"

#include <c10/util/Logging.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

template <typename F>
auto guarded(const std::string& endpoint, F&& act) {
  try {
    return act();
  } catch (const std::exception& error) {
    throw Error(Errc::kFailure, "the store at " + endpoint +
                                    " does not respond: the rank or launcher that serves it ended, "
                                    "or another program uses this port");
  }
}

}  // namespace

TcpKeyStore::TcpKeyStore(const std::string& host, int port, net::Fd listener,
                         std::chrono::milliseconds timeout)
    : endpoint_(net::endpoint_text(host, port)) {
  // Its warnings of a connection that broke come with pages of stack; we say what happened.
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, static_cast<int>(c10::GLOG_ERROR));
  store_ = guarded(endpoint_, [&]() -> c10::intrusive_ptr<c10d::Store> {
    c10d::TCPStoreOptions options;
    options.port = static_cast<std::uint16_t>(port);
    options.timeout = timeout;
    options.waitWorkers = false;
    if (listener) {
      // Left to itself the store listens on every interface.
      options.isServer = true;
      options.masterListenFd = listener.release();
    }
    return c10::make_intrusive<c10d::TCPStore>(host, options);
  });
}

void TcpKeyStore::set(const std::string& key, const std::string& value) {
  guarded(endpoint_,
          [&] { store_->set(key, std::vector<std::uint8_t>(value.begin(), value.end())); });
}

std::optional<std::string> TcpKeyStore::get(const std::string& key) {
  return guarded(endpoint_, [&]() -> std::optional<std::string> {
    if (!store_->check({key})) return std::nullopt;
    const auto value = store_->get(key);
    return std::string(value.begin(), value.end());
  });
}

std::int64_t TcpKeyStore::add(const std::string& key, std::int64_t addend) {
  return guarded(endpoint_, [&] { return store_->add(key, addend); });
}

}  // namespace gbcompress
