// Which g-nets and plain parameters a rank steps, and how they follow the layers of a strategy.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <functional>
#include <set>

#include "bottleneck/impl.h"
#include "bottleneck/internals.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Every rank's numbers become those of `from`, however each lays them out. [collective]
void send(Group& group, at::Tensor numbers, int from) {
  const at::Tensor travels = numbers.detach().contiguous();
  group.broadcast(travels, from).wait();
  if (!travels.is_alias_of(numbers)) numbers.detach().copy_(travels);
  numbers.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

OwnRows GenomicBottleneck::Impl::own_rows(std::size_t bank) const {
  const auto& tiles = ranks.owned[bank];
  if (tiles) return {tiles->first(), tiles->count()};
  return {0, generated.banks[bank].theta.size(0)};
}

bool GenomicBottleneck::Impl::makes(std::size_t layer) const {
  const Route& route = generated.routes[layer];
  const OwnRows own = own_rows(route.bank);
  return route.first >= own.first && route.first < own.first + own.count;
}

void GenomicBottleneck::Impl::gather_plain() {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < ranks.plain.size(); ++i)
    if (ranks.plain[i] >= 0) send(*ranks.group, tensors[plain[i]].tensor, ranks.plain[i]);
}

AdamW::State GenomicBottleneck::Impl::whole_plain_state() const {
  AdamW::State state = plain_optimizer->state();
  at::Tensor steps = at::tensor(state.steps, at::kLong);
  for (std::size_t i = 0; i < ranks.plain.size(); ++i) {
    if (ranks.plain[i] < 0) continue;
    for (at::Tensor& moment : {std::ref(state.first[i]), std::ref(state.second[i])})
      send(*ranks.group, moment, ranks.plain[i]);
    send(*ranks.group, steps[static_cast<std::int64_t>(i)], ranks.plain[i]);
    state.steps[i] = steps[static_cast<std::int64_t>(i)].item<std::int64_t>();
  }
  return state;
}

std::vector<std::size_t> BottleneckRanks::on_every_rank(const GenomicBottleneck& bottleneck) {
  const GenomicBottleneck::Impl& impl = *bottleneck.impl_;
  std::set<std::size_t> elsewhere;
  for (std::size_t i = 0; i < impl.ranks.plain.size(); ++i)
    if (impl.ranks.plain[i] >= 0) elsewhere.insert(impl.plain[i]);
  std::set<std::string> placed;
  if (impl.ranks.with_layers)
    for (const GeneratedLayer& layer : impl.generated.layers) placed.insert(layer.name);
  std::vector<std::size_t> result;
  for (std::size_t t = 0; t < impl.tensors.size(); ++t)
    if (impl.tensors[t].tied_to.empty() && !elsewhere.contains(t) &&
        !placed.contains(impl.tensors[t].info.name))
      result.push_back(t);
  return result;
}

std::vector<std::string> GenomicBottleneck::place_with_layers(
    const std::map<std::string, int>& rank_of) {
  Impl& impl = *impl_;
  GeneratedPart& generated = impl.generated;
  if (!impl.ranks.group) return {};
  const int world = impl.ranks.group->world();
  for (const auto& [name, rank] : rank_of)
    if (rank < 0 || rank >= world)
      throw Error(Errc::kUsage, printable(name) + " is to be on rank " + std::to_string(rank) +
                                    "; there are ranks 0 to " + std::to_string(world - 1));
  BottleneckRanks::leave_layers(*this);
  if (impl.options.placement == Placement::kReplicated) return {};
  std::vector<std::string> names;
  for (const std::size_t t : impl.plain) {
    const auto found = rank_of.find(impl.tensors[t].info.name);
    impl.ranks.plain.push_back(found == rank_of.end() ? -1 : found->second);
    if (found != rank_of.end()) names.push_back(found->first);
  }
  if (impl.integers.of_gnets || generated.layers.empty()) return names;

  const at::NoGradGuard no_grad;
  impl.ranks.gather(generated.banks);
  const AdamW::State moments = impl.whole_state();
  const std::vector<at::Tensor> before = {generated.theta.clone(), generated.grad.clone(),
                                          moments.first[0], moments.second[0]};
  std::vector<std::int64_t> offsets;  // of each layer in those
  for (const GeneratedLayer& layer : generated.layers)
    offsets.push_back(layer.theta.storage_offset());

  const auto rank_of_layer = [&](std::size_t l) {
    const auto found = rank_of.find(generated.layers[l].name);
    return found == rank_of.end() ? 0 : found->second;
  };
  for (Bank& bank : generated.banks)
    std::stable_sort(bank.layers.begin(), bank.layers.end(), [&](std::size_t a, std::size_t b) {
      return rank_of_layer(a) < rank_of_layer(b);
    });
  generated.lay_out();
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    std::vector<std::int64_t> rows(static_cast<std::size_t>(world) + 1, 0);
    for (const std::size_t l : generated.banks[b].layers)
      rows[static_cast<std::size_t>(rank_of_layer(l)) + 1] += generated.layers[l].theta.size(0);
    for (std::size_t r = 1; r < rows.size(); ++r) rows[r] += rows[r - 1];
    impl.ranks.owned[b].emplace(*impl.ranks.group, generated.banks[b].shape, std::move(rows));
  }
  impl.ranks.tell(generated);
  impl.ranks.notes = {"each g-net is computed where the strategy computes its layer"};

  AdamW::State whole{
      moments.steps, {at::zeros_like(generated.theta)}, {at::zeros_like(generated.theta)}};
  const std::vector<at::Tensor> after = {generated.theta, generated.grad, whole.first[0],
                                         whole.second[0]};
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    const at::Tensor& theta = generated.layers[l].theta;
    for (std::size_t i = 0; i < after.size(); ++i)
      after[i]
          .narrow(0, theta.storage_offset(), theta.numel())
          .copy_(before[i].narrow(0, offsets[l], theta.numel()));
    names.push_back(generated.layers[l].name);
  }
  impl.make_gnet_optimizer();
  impl.restore_own(whole);
  impl.ranks.with_layers = true;
  return names;
}

}  // namespace gbcompress
