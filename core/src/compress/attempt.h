#pragma once
/// One run of compress(), from the model as it is to the integers and g-nets that are stored.

#include <memory>
#include <vector>

#include "compress/job.h"

namespace gbcompress {

class Attempts {
 public:
  explicit Attempts(Job& job) : job_(job) {}

  using State = std::vector<GenomicBottleneck::StateEntry>;

  /// The bottleneck that an attempt begins with: planned, and as the resumed checkpoint has it.
  /// @param fresh  if not null, becomes the state that a run begins with that is not resumed
  GenomicBottleneck begin(const BottleneckOptions& sized,
                          std::shared_ptr<const State>* fresh = nullptr);
  /// Fits and trains from where the bottleneck stands.
  void train(GenomicBottleneck& bottleneck, const TrainOptions& options);
  /// What is stored of it: rounded, integers chosen for `wanted` bytes (0: no size is asked), and
  /// predicted, so that the model computes what the file will.
  void settle(GenomicBottleneck& bottleneck, std::int64_t wanted) const;

  /// The file as the bottleneck stands. It forgets the settings where they would be seen in its
  /// size.
  std::vector<std::byte> file(const GenomicBottleneck& bottleneck) const;
  std::int64_t bytes(const GenomicBottleneck& bottleneck) const;

  /// begin, train, settle.
  GenomicBottleneck run(const BottleneckOptions& sized, std::int64_t wanted);

  RunPosition at = {};        ///< attempt, and what earlier ones left
  double bytes_per_step = 0;  ///< sent by this rank

 private:
  Coding coding(const GenomicBottleneck& bottleneck) const;

  Job& job_;
};

}  // namespace gbcompress
