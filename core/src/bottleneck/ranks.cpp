// What several ranks add to the five verbs: who computes what, and everything that is shared.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <chrono>
#include <cstring>
#include <numeric>

#include "bottleneck/impl.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// What one rank's link carries, both directions together as an all_reduce uses them.
double measure_link(Group& group) {
  constexpr std::int64_t kFloats = std::int64_t{1} << 20;  // 4 MiB
  at::Tensor probe = at::zeros({kFloats}, at::kFloat);
  group.all_reduce(probe.narrow(0, 0, 1)).wait();  // connections are made now
  const auto start = Clock::now();
  group.all_reduce(probe).wait();
  const double bytes = 2.0 * 4 * kFloats * (group.world() - 1) / group.world();
  return bytes / std::max(seconds_since(start), 1e-9);
}

}  // namespace

/// Times some tiles of the bank on memory of their own; the model is not touched.
PlacementCase GenomicBottleneck::Impl::measure(std::size_t b, double bytes_per_second) {
  constexpr std::int64_t kSample = 32;
  const BankShape& shape = generated.banks[b].shape;
  const std::int64_t count = generated.banks[b].theta.size(0), sample = std::min(count, kSample);
  at::Tensor tiles = at::zeros({sample, shape.positions()}, at::kFloat);
  const at::Tensor theta_part = generated.banks[b].theta.narrow(0, 0, sample);
  at::Tensor grad_part = at::zeros_like(theta_part);
  std::vector<TileTarget> to;
  std::vector<TileSource> from;
  for (std::int64_t t = 0; t < sample; ++t) {
    float* data = tiles.data_ptr<float>() + t * shape.positions();
    const std::int64_t row = shape.tile_cols * shape.kernel;
    to.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1});
    from.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1});
  }
  double best = 1e30;
  for (int repeat = 0; repeat < 2; ++repeat) {
    const auto start = Clock::now();
    generated.kernel->forward(shape, span_of(theta_part), to);
    generated.kernel->backward(shape, span_of(theta_part), from, span_of(grad_part));
    best = std::min(best, seconds_since(start));
  }
  std::int64_t weights = 0;
  for (std::size_t l : generated.banks[b].layers)
    weights += generated.layers[l].spec.grid().elements();
  return {.compute_seconds = best * static_cast<double>(count) / static_cast<double>(sample),
          .weight_bytes = 4 * weights,
          .theta_bytes = 4 * generated.banks[b].theta.numel(),
          .bytes_per_second = bytes_per_second,
          .world = ranks.group->world()};
}

void GenomicBottleneck::Impl::place() {
  ranks.owned.resize(generated.banks.size());
  if (!ranks.group) return;
  std::vector<Placement> placements(generated.banks.size(), options.placement);
  if (integers.of_gnets) {
    placements.assign(generated.banks.size(), Placement::kReplicated);
    ranks.notes.push_back("replicated: every rank has all integers of coded g-nets");
  } else if (options.placement == Placement::kAuto) {
    // Rank 0 decides for all: every rank measures a little differently.
    const double link = measure_link(*ranks.group);
    at::Tensor choice = at::zeros({static_cast<std::int64_t>(generated.banks.size())}, at::kByte);
    for (std::size_t b = 0; b < generated.banks.size(); ++b) {
      const PlacementChoice chosen = choose_placement(measure(b, link));
      choice[static_cast<std::int64_t>(b)] = static_cast<int>(chosen.placement);
      ranks.notes.push_back("bank " + std::to_string(b) + ": " + chosen.reason);
    }
    if (!generated.banks.empty()) ranks.group->broadcast(choice, 0).wait();
    for (std::size_t b = 0; b < generated.banks.size(); ++b)
      placements[b] =
          static_cast<Placement>(choice[static_cast<std::int64_t>(b)].item<std::int64_t>());
  } else {
    ranks.notes.push_back(std::string(placement_name(options.placement)) + ": as set");
  }
  std::vector<BankLoad> loads;
  for (const Bank& bank : generated.banks) loads.push_back(load_of(bank.shape, bank.theta.size(0)));
  const auto rows = share_out(loads, ranks.group->world());
  for (std::size_t b = 0; b < generated.banks.size(); ++b)
    if (placements[b] == Placement::kOwner)
      ranks.owned[b].emplace(*ranks.group, generated.banks[b].shape, rows[b]);
  ranks.tell(generated);
}

std::vector<at::Tensor> GenomicBottleneck::Impl::carried() const {
  std::vector<at::Tensor> result;
  for (const auto* indices : {&plain, &integers.tensors})
    for (std::size_t t : *indices) result.push_back(tensors[t].tensor);
  return result;
}

std::vector<at::Tensor> GenomicBottleneck::Impl::carried_gradients() {
  std::vector<at::Tensor> gradients;
  for (at::Tensor& tensor : carried()) {
    at::Tensor& gradient = tensor.mutable_grad();
    // A rank whose part of the batch did not reach a parameter has no gradient for it.
    if (!gradient.defined()) gradient = at::zeros_like(tensor.detach());
    gradients.push_back(gradient);
  }
  return gradients;
}

std::vector<at::Tensor> GenomicBottleneck::Impl::float_buffers() const {
  std::vector<at::Tensor> buffers;
  for (const NamedParameter& p : tensors)
    if (!p.trainable && p.tied_to.empty() && p.tensor.is_floating_point())
      buffers.push_back(p.tensor);
  return buffers;
}

void RankPart::gather(const std::vector<Bank>& banks) const {
  if (!group) return;
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < banks.size(); ++b)
    if (owned[b]) owned[b]->gather(banks[b].theta);
}

void RankPart::tell(GeneratedPart& generated) const {
  if (!group) return;
  std::vector<int> all(static_cast<std::size_t>(group->world()));
  std::iota(all.begin(), all.end(), 0);
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    const Route& route = generated.routes[l];
    GeneratedLayer& layer = generated.layers[l];
    layer.replicated = !owned[route.bank];
    layer.ranks =
        layer.replicated ? all : owned[route.bank]->owners(route.first, layer.theta.size(0));
  }
}

std::int64_t GenomicBottleneck::Impl::shard_numbers() const {
  std::int64_t numbers = generated.theta.numel();
  for (const at::Tensor& tensor : carried()) numbers += tensor.numel();
  for (const at::Tensor& buffer : float_buffers()) numbers += buffer.numel();
  return numbers;
}

void GenomicBottleneck::Impl::add_shard(FixedSum& sum) {
  const at::NoGradGuard no_grad;
  for (const auto& tiles : ranks.owned)
    if (tiles)
      throw Error(Errc::kUsage,
                  "shards need every g-net on every rank; choose the "
                  "placement replicated");
  generated.grad.zero_();
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    std::vector<at::Tensor> alive;
    Bank& bank = generated.banks[b];
    generated.kernel->backward(bank.shape, span_of(bank.theta), sources(b, 1, alive),
                               span_of(bank.grad));
  }
  std::vector<at::Tensor> parts = {generated.grad};
  for (at::Tensor& gradient : carried_gradients())
    parts.push_back(gradient.to(at::kCPU, at::kFloat).reshape({-1}));
  for (at::Tensor& buffer : float_buffers())
    parts.push_back(buffer.detach().to(at::kCPU, at::kFloat).reshape({-1}));
  const at::Tensor flat = at::cat(parts);
  sum.add(span_of(flat));
}

void GenomicBottleneck::Impl::reduce_shards(const FixedSum& sum, int shards) {
  const at::NoGradGuard no_grad;
  at::Tensor flat = at::empty({shard_numbers()}, at::kFloat);
  if (ranks.group) {
    ranks.group->all_reduce(sum, shards, flat);
  } else {
    std::vector<std::vector<float>> nodes = sum.nodes();
    std::vector<std::pair<ShardRange, std::span<float>>> tree;
    const auto ranges = subtrees(sum.own());
    for (std::size_t n = 0; n < nodes.size(); ++n) tree.push_back({ranges[n], nodes[n]});
    add_tree(tree, span_of(flat));
  }
  std::int64_t at = generated.theta.numel();
  generated.grad.copy_(flat.narrow(0, 0, at));
  const auto take = [&](at::Tensor to, double factor) {
    to.copy_((flat.narrow(0, at, to.numel()) * factor).view(to.sizes()));
    at += to.numel();
  };
  for (at::Tensor& gradient : carried_gradients()) take(gradient, 1);
  for (at::Tensor& buffer : float_buffers()) take(buffer.detach(), 1.0 / shards);
  add_quantized_rate();
  add_gnet_rate();
  for (std::size_t b = 0; b < generated.banks.size(); ++b) generated.check_finite(b);
}

}  // namespace gbcompress
