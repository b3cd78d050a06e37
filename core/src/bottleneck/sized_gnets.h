#pragma once
/// Which g-nets make a file of a wanted size.

#include "gbcompress/compress.h"

namespace gbcompress {

/// Bytes that the file of these options would have if nothing of the g-nets packed any smaller:
/// an upper bound within a few bytes, found by writing a file of incompressible g-nets.
std::int64_t planned_bytes(const std::vector<NamedParameter>& tensors, const Registry& registry,
                           const BottleneckOptions& options);

/// Options whose file is as large as `max_bytes` allows.
struct SizedOptions {
  BottleneckOptions options;
  std::int64_t planned_bytes = 0;
  bool fits = true;  ///< false: this is the smallest file there is, and it is above max_bytes
};
SizedOptions options_for_size(const std::vector<NamedParameter>& tensors, const Registry& registry,
                              BottleneckOptions options, std::int64_t max_bytes);

}  // namespace gbcompress
