#pragma once
/// What a backend provides. Tensors have been checked, worlds are above 1.

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gbcompress {

class TcpKeyStore;
struct NcclPlace;

class TransportWork {
 public:
  virtual ~TransportWork() = default;
  /// @throws anything derived from std::exception
  virtual void wait() = 0;
};
using TransportWorkPtr = std::unique_ptr<TransportWork>;

class Transport {
 public:
  virtual ~Transport() = default;
  /// Whether tensors there are taken as they are; others travel as copies on the host.
  virtual bool reads(at::Device device) const { return device.is_cpu(); }
  virtual TransportWorkPtr all_reduce(at::Tensor tensor) = 0;
  virtual TransportWorkPtr broadcast(at::Tensor tensor, int from) = 0;
  /// Rank r gets the next in_counts[r] elements of `in`; out_counts[r] elements of `out` are from
  /// it.
  virtual TransportWorkPtr exchange(at::Tensor in, at::Tensor out,
                                    std::vector<std::int64_t> in_counts,
                                    std::vector<std::int64_t> out_counts) = 0;
  /// @param out  [world, elements of mine]
  virtual TransportWorkPtr all_gather(at::Tensor mine, at::Tensor out) = 0;
  virtual TransportWorkPtr barrier() = 0;
  /// Between two ranks, in order: the n-th send() to a rank meets its n-th receive() from this one.
  virtual TransportWorkPtr send(at::Tensor tensor, int to) = 0;
  virtual TransportWorkPtr receive(at::Tensor into, int from) = 0;
  /// Ends whatever is blocked with an error. [thread-safe]
  virtual void abort() noexcept = 0;
};

/// @param address  of this machine, where the others connect to
std::unique_ptr<Transport> make_gloo(TcpKeyStore& store, const std::string& prefix, int rank,
                                     int world, const std::string& address,
                                     std::chrono::milliseconds timeout);

/// @param place  found by find_nccl()
/// @param look  called while the ranks meet; throws to give up
std::unique_ptr<Transport> make_nccl(TcpKeyStore& store, const std::string& prefix, int rank,
                                     int world, const NcclPlace& place,
                                     std::chrono::milliseconds timeout,
                                     const std::function<void()>& look);

}  // namespace gbcompress
