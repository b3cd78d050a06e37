#pragma once
/// One run of compress(), from the model as it is to the integers and g-nets that are stored.

#include <optional>
#include <vector>

#include "gbcompress/compress.h"
#include "train/allocate.h"

namespace gbcompress {

struct Attempt {
  Model& model;
  const Dataset* train_split;  ///< null without data
  Model* teacher;
  const Registry& registry;
  const CompressOptions& options;
  TrainingCheckpoints& checkpoints;
  const ProgressSink& progress;
  std::int64_t number = 0;    ///< of the attempts for --max-drop
  double bytes_per_step = 0;  ///< sent by this rank
  RateOptions rate = {};
  bool trained = false;  ///< trains(), of the whole call
  bool freeze_norms = false;
  std::int64_t wanted_bytes = 0;  ///< 0: no size is asked
  std::optional<Allocation> allocation = {};

  /// The file as the bottleneck stands. It forgets the settings where they would be seen in its
  /// size.
  std::vector<std::byte> file(const GenomicBottleneck& bottleneck) const;
  std::int64_t file_bytes(const GenomicBottleneck& bottleneck) const;
  /// @param sized  the plan, for the size that is wanted
  GenomicBottleneck run(const BottleneckOptions& sized);

 private:
  void choose(GenomicBottleneck& bottleneck) const;
  TrainOptions train_options() const;
};

}  // namespace gbcompress
