#pragma once
/// One attempt, from the model as it is to the integers and g-nets that are stored.

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compress/compress_run.h"
#include "train/training_checkpoints.h"

namespace gbcompress {

class Attempts {
 public:
  explicit Attempts(CompressRun& call) : call_(call) {}

  using State = std::vector<StateEntry>;

  /// The bottleneck that an attempt begins with, as the resumed checkpoint has it.
  /// @param fresh  if not null, becomes the state that a run begins with that is not resumed
  GenomicBottleneck begin(const BottleneckOptions& sized,
                          std::shared_ptr<const State>* fresh = nullptr);
  /// What bits cost in a run of these options.
  RateOptions rate(const TrainOptions& options) const;
  /// Fits and trains from where the bottleneck stands.
  void train(GenomicBottleneck& bottleneck, const TrainOptions& options);
  /// What is stored of it, which the model then computes.
  /// @param wanted  bytes of the file where nothing is trained; 0: no size is asked
  void settle(GenomicBottleneck& bottleneck, std::int64_t wanted) const;

  /// begin, train, settle.
  GenomicBottleneck run(const BottleneckOptions& sized, std::int64_t wanted);

  RunPosition at = {};        ///< attempt, and what earlier ones left
  double bytes_per_step = 0;  ///< sent by this rank

 private:
  /// LoopControl::measure: "test_" and the metric's name, and "test_top5_percent" where there is
  /// one.
  std::map<std::string, double> measure_test_split() const;
  void choose_untrained(GenomicBottleneck& bottleneck, std::int64_t wanted) const;

  CompressRun& call_;
};

/// Options of g-nets whose file has that size; quantized parameters need none.
BottleneckOptions sized_to(const CompressRun& call, std::int64_t bytes);

}  // namespace gbcompress
