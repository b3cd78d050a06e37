#pragma once
/// Samples of what the machine can do, to be taken between other things.

#include <vector>

#include "bench/samples.h"
#include "gbcompress/bench.h"

namespace gbcompress {

class MachineProbe {
 public:
  MachineProbe();
  void sample();  ///< one of each
  MachineRates rates() const;

 private:
  std::int64_t threads_;
  std::vector<char> from_, to_;  ///< larger than the last cache, shared out to the threads
  std::vector<double> fma_, copy_;
};

}  // namespace gbcompress
