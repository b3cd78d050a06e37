#include "sharing.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/ranks.h>

#include <algorithm>
#include <chrono>
#include <numeric>

#include "../common/balance.h"

namespace gbcompress::dtp {
namespace {

std::span<float> floats(at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

}  // namespace

Sharing::Sharing(const Settings& settings, Group* group)
    : settings_(settings), group_(group && group->world() > 1 ? group : nullptr) {
  if (!group_) owner_.assign(settings.layers.size(), 0);
}

/// @param sum  makes the gradient of all shards from this rank's: sum(FixedSum&, at::Tensor& into)
template <typename Sum>
double Sharing::iterate(Feedback& network, std::int64_t iterations, const StageCall& call,
                        const StrategyBatch& batch, ShardRange own, Sum sum) const {
  if (!network.learns() || iterations == 0) return 0;
  const auto rows = static_cast<std::int64_t>(batch.samples.size());
  const auto first_of = [&](int shard) { return rows * shard / settings_.shards; };
  std::vector<StageCall> parts;
  for (int s = own.first; s < own.first + own.count; ++s)
    parts.push_back(settings_.shards == 1
                        ? call
                        : network.call(call.input.slice(0, first_of(s), first_of(s + 1))));
  at::Tensor gradient = at::empty_like(network.weights());
  double loss = 0;
  for (std::int64_t k = 0; k < iterations; ++k) {
    FixedSum total(gradient.numel(), own);
    loss = 0;
    for (int s = own.first; s < own.first + own.count; ++s) {
      const std::int64_t low = first_of(s), high = first_of(s + 1);
      gradient.zero_();
      if (high > low)
        loss += network.accumulate(
            parts[static_cast<std::size_t>(s - own.first)],
            std::span(batch.samples)
                .subspan(static_cast<std::size_t>(low), static_cast<std::size_t>(high - low)),
            static_cast<double>(rows), static_cast<std::uint64_t>(batch.step), k, gradient);
      at::Tensor own_sum = gradient.to(at::kCPU);
      total.add(floats(own_sum));
    }
    at::Tensor whole = gradient.to(at::kCPU);
    sum(total, whole);
    if (!gradient.device().is_cpu()) gradient.copy_(whole);
    network.update(gradient, static_cast<double>(rows));
  }
  return loss;
}

double Sharing::train_alone(Feedback& network, std::int64_t iterations, const StageCall& call,
                            const StrategyBatch& batch) const {
  const int shards = static_cast<int>(settings_.shards);
  return iterate(network, iterations, call, batch, {0, shards},
                 [](FixedSum& total, at::Tensor& into) {
                   const std::vector<float>& root = total.nodes()[0];
                   std::copy(root.begin(), root.end(), into.data_ptr<float>());
                 });
}

double Sharing::train_together(Feedback& network, std::int64_t iterations, const StageCall& call,
                               const StrategyBatch& batch) const {
  const int shards = static_cast<int>(settings_.shards);
  return iterate(
      network, iterations, call, batch, shards_of(group_->rank(), group_->world(), shards),
      [&](FixedSum& total, at::Tensor& into) { group_->all_reduce(total, shards, into); });
}

std::vector<double> Sharing::train(Networks& networks, const std::vector<StageCall>& calls,
                                   const StrategyBatch& batch) {
  const auto iterations = [&](std::size_t i) { return settings_.layers[i].iterations; };
  std::vector<double> losses(networks.size(), 0);
  if (owner_.empty()) {
    measure(networks, calls, batch, losses);
    return losses;
  }
  const int rank = group_ ? group_->rank() : 0;
  for (std::size_t i = 0; i < networks.size(); ++i)
    if (owner_[i] == kEverybody)
      losses[i] = train_together(*networks[i], iterations(i), calls[i], batch);
  std::vector<Pending> sent;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    if (owner_[i] == kEverybody) continue;
    if (owner_[i] == rank) losses[i] = train_alone(*networks[i], iterations(i), calls[i], batch);
    // They travel while the next one learns, in one order on all ranks.
    if (group_) sent.push_back(group_->broadcast(networks[i]->weights(), owner_[i]));
  }
  if (!group_) return losses;
  // A network of everybody's has a part of its loss on each rank, the others theirs on one.
  const at::Tensor shared = at::tensor(losses, at::kFloat);
  sent.push_back(group_->all_reduce(shared));
  for (Pending& one : sent) one.wait();
  std::copy_n(shared.const_data_ptr<float>(), losses.size(), losses.begin());
  return losses;
}

/// The first batch is everybody's, so that no memory has to travel when owners are chosen.
void Sharing::measure(Networks& networks, const std::vector<StageCall>& calls,
                      const StrategyBatch& batch, std::vector<double>& losses) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    const Clock::time_point begin = Clock::now();
    losses[i] = train_alone(*networks[i], settings_.layers[i].iterations, calls[i], batch);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  choose(networks, of_first_rank(*group_, seconds));
}

void Sharing::choose(const Networks& networks, const std::vector<double>& seconds) {
  const int world = group_->world();
  const auto shards = static_cast<double>(settings_.shards);
  std::vector<std::size_t> order(seconds.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return seconds[a] > seconds[b]; });
  double best = 0;
  // The heaviest networks together, the others one a rank: as many together as is fastest.
  const std::size_t most = settings_.shards >= world ? seconds.size() : 0;
  for (std::size_t together = 0; together <= most; ++together) {
    std::vector<double> rest = seconds;
    double time = 0;
    for (std::size_t k = 0; k < together; ++k) {
      rest[order[k]] = 0;
      time += seconds[order[k]] * std::ceil(shards / world) / shards;
    }
    std::vector<int> owner = balance(rest, world);
    std::vector<double> load(static_cast<std::size_t>(world), 0);
    for (std::size_t i = 0; i < rest.size(); ++i)
      load[static_cast<std::size_t>(owner[i])] += rest[i];
    time += *std::max_element(load.begin(), load.end());
    for (std::size_t k = 0; k < together; ++k) owner[order[k]] = kEverybody;
    if (together > 0 && time >= best * 0.95) continue;  // messages have a cost too
    best = time;
    owner_ = owner;
  }
  if (group_->rank() != 0) return;
  std::vector<std::string> names;
  for (const auto& network : networks) names.push_back(network->name());
  tell("feedback networks", names, owner_, seconds, best, world);
}

void Sharing::share_memory(const Networks& networks) const {
  if (!group_ || owner_.empty()) return;
  for (std::size_t i = 0; i < networks.size(); ++i) {
    if (owner_[i] == kEverybody) continue;
    std::vector<at::Tensor> memory = networks[i]->memory();
    for (at::Tensor& value : memory) group_->broadcast(value, owner_[i]).wait();
    if (owner_[i] != group_->rank()) networks[i]->restore_memory(memory);
  }
}

}  // namespace gbcompress::dtp
