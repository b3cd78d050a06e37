#pragma once
/// The attempts of a call: one, or as many as it takes to find the price or the size.

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "compress/job.h"

namespace gbcompress {

/// As printf, for messages of up to 300 bytes.
inline std::string formatted(const char* format, auto... values) {
  char buffer[300];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

struct Outcome {
  std::optional<GenomicBottleneck> bottleneck;  ///< of the last attempt
  std::vector<std::byte> file;                  ///< the best one
  bool target_met = true;                       ///< as far as quality is concerned
  std::string note;                             ///< why a target is not met, where it is not
  double kept = 1;                              ///< AboveChance::kept() of the file's model
  std::int64_t attempts = 1;
  double price = 0;           ///< lambda of the file; 0: nothing was priced
  double bytes_per_step = 0;  ///< sent by this rank
};

/// The plan of g-nets whose file has that size; residual parameters need none.
BottleneckOptions sized_to(const Job& job, std::int64_t bytes);
/// The note where files of the wanted size leave no model alive.
/// @param smallest  bytes of the smallest file found that does
std::string out_of_reach(std::int64_t wanted, std::int64_t smallest);

/// The note where no file that was tried does.
inline std::string nothing_alive(std::int64_t wanted, std::size_t bytes) {
  return formatted(
      "at most %lld bytes were asked, the file has %zu; none was found whose model keeps half of "
      "what the original knows above chance",
      static_cast<long long>(wanted), bytes);
}

/// [collective]
Outcome attempt_all(Job& job);

}  // namespace gbcompress
