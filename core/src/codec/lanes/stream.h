#pragma once
/// A list of grids as one run of bytes: the sizes of head and stripes, then these. Files have the
/// sizes in their header instead.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/parallel.h"
#include "codec/lanes/encoder.h"

namespace gbcompress::codec::lanes {

/// Makes stripes of grids that come in the order of the survey.
class StripeWriter {
 public:
  /// @param threads  change no bit
  explicit StripeWriter(const Survey& survey, int threads = 1)
      : survey_(survey), threads_(threads), workers_(static_cast<std::size_t>(threads)) {}

  /// Calls sink(stripe) for each stripe that is full.
  template <typename Sink>
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values, const Sink& sink) {
    add(grid, WholeGrid(Shape(grid), values), sink);
  }
  template <typename Sink>
  void add(const IntegerGrid& grid, const Blocks& blocks, const Sink& sink) {
    const Shape shape(grid);
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      if (filled_ > 0 && filled_ + shape.size(block) > kStripeValues) flush(sink);
      if (filled_ == 0) block += add_alone(shape, block, blocks, sink);
      if (block == shape.blocks()) break;
      encode(shared_, shape, block, blocks);
      filled_ += shape.size(block);
    }
    ++grid_;
  }
  template <typename Sink>
  void flush(const Sink& sink) {
    if (filled_ > 0) sink(shared_.encoder.finish());
    filled_ = 0;
  }

 private:
  struct Worker {
    StripeEncoder encoder;
    std::vector<std::int32_t> room;
  };

  void encode(Worker& worker, const Shape& shape, std::int64_t block, const Blocks& blocks) {
    worker.encoder.add(survey_, survey_.grid(grid_), shape, block, blocks.get(block, worker.room));
  }

  /// Side by side: blocks from `first` on that are a stripe each, whatever follows the grid.
  /// @return how many
  template <typename Sink>
  std::int64_t add_alone(const Shape& shape, std::int64_t first, const Blocks& blocks,
                         const Sink& sink) {
    if (threads_ < 2) return 0;
    std::int64_t end = first;
    while (end + 1 < shape.blocks() && shape.size(end) + shape.size(end + 1) > kStripeValues) ++end;
    std::vector<std::vector<std::byte>> stripes(workers_.size());
    for (std::int64_t block = first; block < end; block += threads_) {
      const std::int64_t count = std::min<std::int64_t>(threads_, end - block);
      parallel_tasks(threads_, count, [&](std::int64_t i) {
        Worker& worker = workers_[static_cast<std::size_t>(i)];
        encode(worker, shape, block + i, blocks);
        stripes[static_cast<std::size_t>(i)] = worker.encoder.finish();
      });
      for (std::int64_t i = 0; i < count; ++i) sink(stripes[static_cast<std::size_t>(i)]);
    }
    return end - first;
  }

  const Survey& survey_;
  const int threads_;
  Worker shared_;  ///< of stripes that several grids share
  std::vector<Worker> workers_;
  std::int64_t filled_ = 0;
  std::size_t grid_ = 0;
};

/// What such a run begins with.
struct StreamParts {
  std::span<const std::byte> head;
  std::vector<std::span<const std::byte>> stripes;
  const std::byte* end;  ///< of what may be read
};
/// @throws Error(kTruncated, kCorrupt)
StreamParts stream_parts(std::span<const std::byte> stream);

}  // namespace gbcompress::codec::lanes
