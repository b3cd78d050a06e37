#pragma once
/// The feedback phase, on one rank or spread over several.

#include <gbcompress/ranks.h>
#include <gbcompress/strategy.h>

#include <memory>

#include "feedback.h"

namespace gbcompress::dtp {

/// Trains the feedback networks of a batch. A rank trains whole networks, and where one would keep
/// the others waiting, all ranks train that one together, each on its shards of the rows. What a
/// network becomes has the same bits whoever computes it.
class Sharing {
 public:
  using Networks = std::vector<std::unique_ptr<Feedback>>;
  /// @param group  null for one process
  Sharing(const Settings& settings, Group* group);

  /// Every network makes its iterations on its stage's call. Afterwards they are the same on every
  /// rank. [collective]
  /// @return the loss of each network's last iteration, the same on every rank
  std::vector<double> train(Networks& networks, const std::vector<StageCall>& calls,
                            const StrategyBatch& batch);
  /// Every rank gets the optimizers' memory of the networks that others train. [collective]
  void share_memory(const Networks& networks) const;

 private:
  /// One network: all iterations, all shards, on this rank.
  double train_alone(Feedback& network, std::int64_t iterations, const StageCall& call,
                     const StrategyBatch& batch) const;
  /// The same with this rank's shards. [collective]
  double train_together(Feedback& network, std::int64_t iterations, const StageCall& call,
                        const StrategyBatch& batch) const;
  template <typename Sum>
  double iterate(Feedback& network, std::int64_t iterations, const StageCall& call,
                 const StrategyBatch& batch, ShardRange own, Sum sum) const;
  void measure(Networks& networks, const std::vector<StageCall>& calls, const StrategyBatch& batch,
               std::vector<double>& losses);
  /// Who trains what, from seconds a batch. Told on rank 0.
  void choose(const Networks& networks, const std::vector<double>& seconds);

  const Settings& settings_;
  Group* group_;
  std::vector<int> owner_;  ///< of each network; kEverybody; empty until a batch was measured
};

}  // namespace gbcompress::dtp
