#pragma once
/// How long training takes on this machine, from a few of its steps.

#include <cstdint>

#include "compress/compress_run.h"

namespace gbcompress {

struct Timing {
  double step = 0;     ///< seconds of one step of training
  double refresh = 0;  ///< seconds of a refresh of the entropy model
};
/// Runs a few steps with a learning rate of 0; the model is left as it is. On rank 0's machine,
/// with one process's share of nothing: an upper bound where several share a batch. [collective]
Timing time_training(CompressRun& call);

/// Steps of all attempts together, the first of `epochs`.
std::int64_t all_steps(const CompressRun& call, std::int64_t epochs);
/// Seconds of them.
double all_seconds(const CompressRun& call, const Timing& timing, std::int64_t epochs);

/// About the seconds of methods that train nothing, evaluation included.
struct UntrainedTiming {
  double data_free = 0;
  double calibrated = 0;  ///< 0: there are no samples to calibrate on, or they are not used
};
UntrainedTiming untrained_timing(CompressRun& call);
/// Of this process so far.
std::int64_t peak_memory_bytes();

}  // namespace gbcompress
