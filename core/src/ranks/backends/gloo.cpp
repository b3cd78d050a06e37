// The only file that sees Gloo's headers. Debian's are older than the Gloo inside LibTorch and
// differ from it in places, so nothing of Gloo is made here: c10d makes it, and its classes are
// only named. libgloo is not linked: LibTorch brings its own.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <map>
#include <stdexcept>

#include "ranks/backends/tcp_store.h"
#include "ranks/collectives/transport.h"
#include "ranks/rendezvous/socket_census.h"

namespace gbcompress {
namespace {

using c10d::ProcessGroupGloo;

class GlooWork : public TransportWork {
 public:
  explicit GlooWork(c10::intrusive_ptr<c10d::Work> work) : work_(std::move(work)) {}
  void wait() override {
    if (!work_->wait()) throw std::runtime_error("it was given up");
  }

 private:
  c10::intrusive_ptr<c10d::Work> work_;
};

TransportWorkPtr wrap(c10::intrusive_ptr<c10d::Work> work) {
  return std::make_unique<GlooWork>(std::move(work));
}

class GlooTransport : public Transport {
 public:
  GlooTransport(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world,
                const std::string& address, std::chrono::milliseconds timeout) {
    auto options = ProcessGroupGloo::Options::create(timeout);
    options->devices.push_back(ProcessGroupGloo::createDeviceForHostname(address));
    group_ = c10::make_intrusive<ProcessGroupGloo>(store, rank, world, options);
    sockets_.close_books();
  }

  TransportWorkPtr all_reduce(at::Tensor tensor) override {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    return wrap(group_->allreduce(tensors));
  }

  TransportWorkPtr broadcast(at::Tensor tensor, int from) override {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    return wrap(group_->broadcast(tensors, options));
  }

  TransportWorkPtr exchange(at::Tensor in, at::Tensor out, std::vector<std::int64_t> in_counts,
                            std::vector<std::int64_t> out_counts) override {
    return wrap(group_->alltoall_base(out, in, out_counts, in_counts));
  }

  TransportWorkPtr all_gather(at::Tensor mine, at::Tensor out) override {
    return wrap(group_->_allgather_base(out, mine));
  }

  TransportWorkPtr barrier() override { return wrap(group_->barrier()); }

  TransportWorkPtr send(at::Tensor tensor, int to) override {
    std::vector<at::Tensor> tensors = {std::move(tensor)};
    return wrap(group_->send(tensors, to, next_tag(sent_[to])));
  }

  TransportWorkPtr receive(at::Tensor into, int from) override {
    std::vector<at::Tensor> tensors = {std::move(into)};
    return wrap(group_->recv(tensors, from, next_tag(received_[from])));
  }

  void abort() noexcept override { sockets_.shut_down(); }

 private:
  /// Transfers of two ranks are told apart by their number, not by the order of their arrival.
  static int next_tag(int& count) {
    count = (count + 1) & 0x3fff'ffff;
    return count;
  }

  SocketCensus sockets_;
  std::map<int, int> sent_, received_;  ///< to and from each rank
  c10::intrusive_ptr<ProcessGroupGloo> group_;
};

}  // namespace

std::unique_ptr<Transport> make_gloo(TcpKeyStore& store, const std::string& prefix, int rank,
                                     int world, const std::string& address,
                                     std::chrono::milliseconds timeout) {
  return std::make_unique<GlooTransport>(
      c10::make_intrusive<c10d::PrefixStore>(prefix, store.c10d()), rank, world, address, timeout);
}

}  // namespace gbcompress
