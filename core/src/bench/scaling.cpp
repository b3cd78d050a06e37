#include "gbcompress/bench.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>

#include "bottleneck/placement.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "ranks/collectives/average.h"

namespace gbcompress {
namespace {

constexpr double kBucketBytes = 8.0 * (1 << 20);  // of bottleneck/exchange.cpp

/// One rank's processor and its link. What is sent waits for what was sent before.
class Timeline {
 public:
  void compute(double seconds) {
    now_ += seconds;
    computed_ += seconds;
  }
  /// @return when it has arrived
  double send(double seconds) {
    free_ = std::max(free_, now_) + seconds;
    busy_ += seconds;
    return free_;
  }
  void wait(double until) {
    if (until <= now_) return;
    waited_ += until - now_;
    now_ = until;
  }

  double now() const { return now_; }
  double computed() const { return computed_; }
  double busy() const { return busy_; }
  double waited() const { return waited_; }

 private:
  double now_ = 0, free_ = 0, computed_ = 0, busy_ = 0, waited_ = 0;
};

class Prediction {
 public:
  Prediction(const ModelPlan& plan, const RankRates& rates, std::span<const Placement> placements,
             const ScalingCase& scaling)
      : plan_(plan),
        rates_(rates),
        placements_(placements),
        scaling_(scaling),
        rows_(owner_rows(plan, scaling.world)) {}

  StepPrediction run() {
    for (std::size_t b = 0; b < plan_.banks.size(); ++b)
      owned(b) ? predict_owned(b)
               : time_.compute(weights(b) / rates_.banks[b].forward_weights_per_second);
    time_.compute(scaling_.model_seconds);
    const double plain = start_plain();
    double last = 0;
    for (std::size_t b = 0; b < plan_.banks.size(); ++b) {
      if (owned(b)) {
        backward_owned(b);
        continue;
      }
      time_.compute(weights(b) / rates_.banks[b].backward_weights_per_second);
      last = time_.send(all_reduce(4.0 * static_cast<double>(plan_.banks[b].parameters())));
    }
    time_.wait(std::max(last, plain));
    finish_plain();
    adamw();
    const std::vector<std::int64_t> bytes = step_bytes(plan_, placements_, scaling_.world);
    return {.seconds = time_.now(),
            .compute_seconds = time_.computed() - scaling_.model_seconds,
            .link_seconds = time_.busy(),
            .wait_seconds = time_.waited(),
            .busiest_bytes = *std::max_element(bytes.begin(), bytes.end()),
            .all_bytes = std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0})};
  }

 private:
  bool owned(std::size_t b) const {
    return scaling_.world > 1 && placements_[b] == Placement::kOwner;
  }
  double weights(std::size_t b) const { return static_cast<double>(plan_.banks[b].weights); }
  double world() const { return scaling_.world; }
  double copy(double bytes) const { return 2 * bytes / rates_.copy_bytes_per_second; }

  double all_reduce(double bytes) const {
    if (scaling_.world == 1 || bytes == 0) return 0;
    return 2 * (world() - 1) *
           (scaling_.link.latency_seconds + bytes / world() / scaling_.link.bytes_per_second);
  }

  /// What one bank's exchange costs, per bucket.
  struct Exchange {
    double buckets, share, bytes, own_bytes, scatter, gather;
  };
  Exchange exchange_of(std::size_t b) const {
    const std::vector<std::int64_t> owned = owned_weights(plan_, b, rows_[b]);
    std::vector<std::int64_t> pieces = owned;
    for (std::int64_t& piece : pieces) piece *= 4;
    std::int64_t gathered = 0, scattered = 0;
    const std::int64_t bytes = 4 * plan_.banks[b].weights;
    for (int r = 0; r < scaling_.world; ++r) {
      gathered = std::max(gathered, wire::all_gather(pieces, r));
      const std::int64_t own = pieces[static_cast<std::size_t>(r)];
      scattered = std::max({scattered, bytes - own, own * (scaling_.world - 1)});
    }
    const double buckets = std::max(1.0, std::ceil(static_cast<double>(bytes) / kBucketBytes));
    const auto share = static_cast<double>(*std::max_element(owned.begin(), owned.end())) / buckets;
    const Link& link = scaling_.link;
    const auto hops =
        static_cast<double>(std::bit_width(static_cast<unsigned>(scaling_.world - 1)));
    return {.buckets = buckets,
            .share = share,
            .bytes = static_cast<double>(bytes) / buckets,
            .own_bytes = 4 * share,
            .scatter = (world() - 1) * link.latency_seconds +
                       static_cast<double>(scattered) / buckets / link.bytes_per_second,
            .gather = hops * link.latency_seconds +
                      static_cast<double>(gathered) / buckets / link.bytes_per_second};
  }

  /// OwnedTiles::forward: a bucket is computed while the one before travels.
  void predict_owned(std::size_t b) {
    const Exchange e = exchange_of(b);
    double arrived = 0;
    for (double i = 0; i < e.buckets; ++i) {
      time_.compute(e.share / rates_.banks[b].forward_weights_per_second);
      const double next = time_.send(e.gather);
      if (i > 0) unpack(arrived, copy(e.bytes));
      arrived = next;
    }
    unpack(arrived, copy(e.bytes));
  }
  /// OwnedTiles::backward: a bucket is packed while the one before travels, then pushed back.
  void backward_owned(std::size_t b) {
    const Exchange e = exchange_of(b);
    // Added up in rank order: every rank's part is read, the sum read and written.
    const double push = (world() + 1) * e.own_bytes / rates_.copy_bytes_per_second +
                        e.share / rates_.banks[b].backward_weights_per_second;
    double arrived = 0;
    for (double i = 0; i < e.buckets; ++i) {
      time_.compute(copy(e.bytes));
      const double next = time_.send(e.scatter);
      if (i > 0) unpack(arrived, push);
      arrived = next;
    }
    unpack(arrived, push);
  }
  void unpack(double arrived, double seconds) {
    time_.wait(arrived);
    time_.compute(seconds);
  }

  /// @return when all are there
  double start_plain() {
    if (scaling_.world == 1) return 0;
    const std::vector<std::int64_t> sizes = averaged_sizes(plan_);
    double arrived = 0;
    for (const auto& [first, last] : Average::chunks(sizes)) {
      double bytes = 0;
      for (std::size_t t = first; t < last; ++t) bytes += 4.0 * static_cast<double>(sizes[t]);
      time_.compute(copy(bytes));
      arrived = time_.send(all_reduce(bytes));
    }
    return arrived;
  }
  void finish_plain() {
    if (scaling_.world == 1) return;
    for (const std::int64_t size : averaged_sizes(plan_))
      time_.compute(copy(4.0 * static_cast<double>(size)));
  }

  void adamw() {
    double rate = 0;
    for (std::size_t b = 0; b < plan_.banks.size(); ++b) {
      rate = rates_.banks[b].adamw_parameters_per_second;
      std::int64_t gnets = plan_.banks[b].gnets;
      if (owned(b)) {
        gnets = 0;
        for (std::size_t r = 0; r + 1 < rows_[b].size(); ++r)
          gnets = std::max(gnets, rows_[b][r + 1] - rows_[b][r]);
      }
      time_.compute(static_cast<double>(gnets * plan_.banks[b].shape.parameters()) / rate);
    }
    if (rate > 0) time_.compute(static_cast<double>(plan_.plain_parameters) / rate);
  }

  const ModelPlan& plan_;
  const RankRates& rates_;
  std::span<const Placement> placements_;
  const ScalingCase& scaling_;
  OwnerRows rows_;
  Timeline time_;
};

void check(const ModelPlan& plan, const RankRates& rates, const ScalingCase& scaling) {
  if (scaling.world < 1 || scaling.world > kMaxWorld)
    throw Error(Errc::kUsage, "a world of " + std::to_string(scaling.world) +
                                  " ranks is not possible; use 1 to " + std::to_string(kMaxWorld));
  const Link& link = scaling.link;
  if (!(link.bytes_per_second > 0) || !(link.latency_seconds >= 0) || !(scaling.model_seconds >= 0))
    throw Error(Errc::kUsage,
                "bandwidth must be above 0, latency and the model's seconds not below");
  if (rates.banks.size() != plan.banks.size() || !(rates.copy_bytes_per_second > 0))
    throw Error(Errc::kUsage, "the rates are those of another plan; measure them for this one");
}

}  // namespace

RankRates measure_rank_rates(const ModelPlan& plan, double seconds) {
  RankRates rates;
  for (const PlannedBank& bank : plan.banks)
    rates.banks.push_back(measure_engine_rates(bank.shape, seconds));
  rates.copy_bytes_per_second = measure_machine(seconds).copy_bytes_per_second;
  return rates;
}

StepPrediction predict_step(const ModelPlan& plan, const RankRates& rates,
                            std::span<const Placement> placements, const ScalingCase& scaling) {
  check(plan, rates, scaling);
  if (placements.size() != plan.banks.size())
    throw Error(Errc::kUsage, "every bank needs a placement");
  return Prediction(plan, rates, placements, scaling).run();
}

std::vector<Placement> choose_placements(const ModelPlan& plan, const RankRates& rates,
                                         const ScalingCase& scaling) {
  check(plan, rates, scaling);
  std::vector<Placement> result;
  for (std::size_t b = 0; b < plan.banks.size(); ++b) {
    const PlannedBank& bank = plan.banks[b];
    const EngineRates& rate = rates.banks[b];
    const auto weights = static_cast<double>(bank.weights);
    result.push_back(
        choose_placement({.compute_seconds = weights / rate.forward_weights_per_second +
                                             weights / rate.backward_weights_per_second,
                          .weight_bytes = 4 * bank.weights,
                          .theta_bytes = 4 * bank.parameters(),
                          .bytes_per_second = scaling.link.bytes_per_second,
                          .world = scaling.world})
            .placement);
  }
  return result;
}

}  // namespace gbcompress
