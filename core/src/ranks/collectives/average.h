#pragma once
/// Means over all ranks, with time in between for something else.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "gbcompress/ranks.h"

namespace gbcompress {

/// Averages tensors of any floating type over all ranks, a few million numbers at a time.
class Average {
 public:
  /// Starts; the tensors must stay as they are until finish(). [collective]
  Average(Group& group, std::vector<at::Tensor> tensors);
  /// Writes the averages back. [collective]
  void finish();

  /// Which tensors travel together, [first, last), by their sizes in numbers.
  static std::vector<std::pair<std::size_t, std::size_t>> chunks(
      std::span<const std::int64_t> sizes);

 private:
  struct Chunk {
    std::size_t first = 0, last = 0;
    at::Tensor flat;
    Pending pending;
  };
  std::vector<at::Tensor> tensors_;
  std::vector<Chunk> chunks_;
};

}  // namespace gbcompress
