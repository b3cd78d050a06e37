#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "gbcompress/error.h"
#include "ranks/collectives/group_state.h"

namespace gbcompress {
namespace {

void check_tensor(const at::Tensor& tensor, bool floats) {
  if (!tensor.defined() || !tensor.is_contiguous())
    throw Error(Errc::kUsage, "a collective takes contiguous tensors");
  if (floats && tensor.scalar_type() != at::kFloat)
    throw Error(Errc::kUsage, "only float32 tensors can be summed over the ranks");
}

/// Of collectives that read the numbers themselves.
void check_on_host(const at::Tensor& tensor) {
  check_tensor(tensor, true);
  if (!tensor.device().is_cpu())
    throw Error(Errc::kUsage, "a sum in pieces takes tensors on the CPU");
}

/// A tensor, or the copy on the host that travels for it where the backend does not read its
/// device.
class Traveler {
 public:
  /// @param sends  whether its numbers leave this rank
  Traveler(const Transport& transport, at::Tensor tensor, bool sends = true)
      : tensor_(std::move(tensor)), copied_(!transport.reads(tensor_.device())) {
    if (!copied_)
      traveling_ = tensor_;
    else if (sends)
      traveling_ = tensor_.detach().to(at::kCPU);
    else
      traveling_ = at::empty_like(tensor_.detach(), at::TensorOptions(at::kCPU));
  }
  const at::Tensor& traveling() const { return traveling_; }
  /// What is left to do when everything has arrived.
  std::function<void()> arrival() const {
    if (!copied_) return {};
    return [tensor = tensor_, traveled = traveling_] {
      const at::NoGradGuard no_grad;
      tensor.detach().copy_(traveled);
    };
  }

 private:
  at::Tensor tensor_, traveling_;
  bool copied_;
};

void check_rank(int rank, int world) {
  if (rank < 0 || rank >= world)
    throw Error(Errc::kUsage,
                "rank " + std::to_string(rank) + " is none of the " + std::to_string(world));
}

void check_peer(const char* verb, int peer, int rank, int world) {
  check_rank(peer, world);
  if (peer == rank)
    throw Error(Errc::kUsage,
                "rank " + std::to_string(rank) + " cannot " + verb + " itself; name another rank");
}

std::int64_t check_pieces(std::span<const std::int64_t> pieces, int world) {
  if (static_cast<int>(pieces.size()) != world ||
      std::ranges::any_of(pieces, [](std::int64_t piece) { return piece < 0; }))
    throw Error(Errc::kUsage, "a collective in pieces needs one size a rank");
  return std::accumulate(pieces.begin(), pieces.end(), std::int64_t{0});
}

std::vector<std::int64_t> in_bytes(std::span<const std::int64_t> pieces, std::int64_t element) {
  std::vector<std::int64_t> result(pieces.begin(), pieces.end());
  for (std::int64_t& piece : result) piece *= element;
  return result;
}

}  // namespace

Pending Group::all_reduce(at::Tensor tensor) {
  check_tensor(tensor, true);
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  state_->begin(Collective::kAllReduce, wire::all_reduce(bytes, rank(), world()));
  if (world() == 1 || bytes == 0) return {};
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kAllReduce;
  const Traveler traveler(*state_->transport, std::move(tensor));
  impl->start([&] { return state_->transport->all_reduce(traveler.traveling()); });
  impl->complete = traveler.arrival();
  return Pending(std::move(impl));
}

Pending Group::reduce_scatter(const at::Tensor& tensor, std::span<const std::int64_t> pieces,
                              at::Tensor into) {
  check_on_host(tensor);
  check_on_host(into);
  const std::int64_t total = check_pieces(pieces, world());
  const std::int64_t own = pieces[static_cast<std::size_t>(rank())];
  if (tensor.numel() != total || into.numel() != own)
    throw Error(Errc::kUsage, "the pieces do not add up to the tensor that is reduced");
  state_->begin(Collective::kReduce, wire::reduce_scatter(in_bytes(pieces, sizeof(float)), rank()));
  if (total == 0) return {};
  if (world() == 1) {
    if (into.data_ptr() != tensor.data_ptr()) into.copy_(tensor.view_as(into));
    return {};
  }
  // What every rank has of our piece, in rank order, to be added up in that order.
  const at::Tensor parts = at::empty({world() * own}, tensor.options());
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kReduce;
  impl->start([&] {
    return state_->transport->exchange(
        tensor.view({-1}), parts, {pieces.begin(), pieces.end()},
        std::vector<std::int64_t>(static_cast<std::size_t>(world()), own));
  });
  impl->complete = [parts, into, own, ranks = world()] {
    const float* from = parts.const_data_ptr<float>();
    float* sum = into.mutable_data_ptr<float>();
    std::copy_n(from, own, sum);
    for (int r = 1; r < ranks; ++r) {
      from += own;
      for (std::int64_t i = 0; i < own; ++i) sum[i] += from[i];
    }
  };
  return Pending(std::move(impl));
}

Pending Group::broadcast(at::Tensor tensor, int from) {
  check_rank(from, world());
  check_tensor(tensor, false);
  const auto bytes = static_cast<std::int64_t>(tensor.nbytes());
  state_->begin(Collective::kBroadcast, wire::broadcast(bytes, from, rank(), world()));
  if (world() == 1 || bytes == 0) return {};
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kBroadcast;
  const Traveler traveler(*state_->transport, std::move(tensor), from == rank());
  impl->start([&] { return state_->transport->broadcast(traveler.traveling(), from); });
  if (from != rank()) impl->complete = traveler.arrival();
  return Pending(std::move(impl));
}

Pending Group::all_gather(at::Tensor tensor, std::span<const std::int64_t> pieces) {
  check_tensor(tensor, false);
  if (check_pieces(pieces, world()) != tensor.numel())
    throw Error(Errc::kUsage, "the pieces do not add up to the tensor that is gathered");
  const auto element = static_cast<std::int64_t>(tensor.element_size());
  state_->begin(Collective::kAllGather, wire::all_gather(in_bytes(pieces, element), rank()));
  if (world() == 1) return {};
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kAllGather;
  const Traveler traveler(*state_->transport, std::move(tensor));
  const at::Tensor flat = traveler.traveling().view({-1});
  std::int64_t first = 0;
  for (int from = 0; from < world(); ++from) {
    const std::int64_t piece = pieces[static_cast<std::size_t>(from)];
    if (piece > 0)
      impl->start([&] { return state_->transport->broadcast(flat.narrow(0, first, piece), from); });
    first += piece;
  }
  impl->complete = traveler.arrival();
  return Pending(std::move(impl));
}

Pending Group::send(const at::Tensor& tensor, int to) {
  check_peer("send to", to, rank(), world());
  check_tensor(tensor, false);
  state_->begin(Collective::kSend, static_cast<std::int64_t>(tensor.nbytes()));
  if (tensor.nbytes() == 0) return {};
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kSend;
  impl->peer = to;
  const Traveler traveler(*state_->transport, tensor);
  impl->start([&] { return state_->transport->send(traveler.traveling(), to); });
  return Pending(std::move(impl));
}

Pending Group::receive(at::Tensor into, int from) {
  check_peer("receive from", from, rank(), world());
  check_tensor(into, false);
  state_->begin(Collective::kReceive, 0);
  if (into.nbytes() == 0) return {};
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kReceive;
  impl->peer = from;
  const Traveler traveler(*state_->transport, std::move(into), /*sends=*/false);
  impl->start([&] { return state_->transport->receive(traveler.traveling(), from); });
  impl->complete = traveler.arrival();
  return Pending(std::move(impl));
}

void Group::barrier() {
  state_->begin(Collective::kBarrier, 0);
  if (world() == 1) return;
  auto impl = std::make_unique<Pending::Impl>();
  impl->state = state_;
  impl->kind = Collective::kBarrier;
  impl->start([&] { return state_->transport->barrier(); });
  Pending(std::move(impl)).wait();
}

void Group::all_reduce(const FixedSum& sum, int shards, at::Tensor into) {
  check_on_host(into);
  const ShardRange own = shards_of(rank(), world(), shards);
  if (sum.own() != own || into.numel() != sum.elements())
    throw Error(Errc::kUsage, "a fixed sum does not have this rank's shards, or its size differs");
  const auto& nodes = sum.nodes();
  // Each rank adds up one piece for all, then the pieces are gathered.
  const std::int64_t elements = sum.elements();
  std::vector<std::int64_t> pieces;
  for (int r = 0; r < world(); ++r)
    pieces.push_back(elements * (r + 1) / world() - elements * r / world());
  const std::int64_t piece = pieces[static_cast<std::size_t>(rank())];
  const auto node_count = static_cast<std::int64_t>(nodes.size());

  std::vector<std::int64_t> sent = in_bytes(pieces, node_count);
  const at::Tensor out = at::empty({elements * node_count}, into.options());
  float* to = out.mutable_data_ptr<float>();
  std::int64_t first = 0, own_first = 0;
  for (int r = 0; r < world(); ++r) {
    if (r == rank()) own_first = first;
    for (const auto& node : nodes)
      to = std::copy_n(node.data() + first, pieces[static_cast<std::size_t>(r)], to);
    first += pieces[static_cast<std::size_t>(r)];
  }

  std::vector<ShardRange> tree;
  std::vector<std::int64_t> received;
  for (int r = 0; r < world(); ++r) {
    const auto parts = subtrees(shards_of(r, world(), shards));
    tree.insert(tree.end(), parts.begin(), parts.end());
    received.push_back(static_cast<std::int64_t>(parts.size()) * piece);
  }
  at::Tensor in = out;
  state_->begin(Collective::kReduce, wire::reduce_scatter(in_bytes(sent, sizeof(float)), rank()));
  if (world() > 1) {
    in = at::empty({static_cast<std::int64_t>(tree.size()) * piece}, into.options());
    auto impl = std::make_unique<Pending::Impl>();
    impl->state = state_;
    impl->kind = Collective::kReduce;
    impl->start([&] { return state_->transport->exchange(out, in, sent, received); });
    Pending(std::move(impl)).wait();
  }
  std::vector<std::pair<ShardRange, std::span<float>>> spans;
  float* from = in.mutable_data_ptr<float>();
  for (const ShardRange& range : tree) {
    spans.emplace_back(range, std::span<float>(from, static_cast<std::size_t>(piece)));
    from += piece;
  }
  add_tree(std::move(spans),
           {into.mutable_data_ptr<float>() + own_first, static_cast<std::size_t>(piece)});
  all_gather(into, pieces).wait();
}

}  // namespace gbcompress
