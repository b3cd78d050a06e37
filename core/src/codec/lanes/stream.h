#pragma once
/// A list of grids as one run of bytes: the sizes of head and stripes, then these. Files have the
/// sizes in their header instead.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/lanes/encoder.h"

namespace gbcompress::codec::lanes {

/// Makes stripes of grids that come in the order of the survey.
class StripeWriter {
 public:
  explicit StripeWriter(const Survey& survey) : survey_(survey) {}

  /// Calls sink(stripe) for each stripe that is full.
  template <typename Sink>
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values, const Sink& sink) {
    const Shape shape(grid);
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      if (filled_ > 0 && filled_ + shape.size(block) > kStripeValues) flush(sink);
      encoder_.add(survey_, survey_.grid(grid_), shape, block,
                   values.subspan(static_cast<std::size_t>(shape.first(block)),
                                  static_cast<std::size_t>(shape.size(block))));
      filled_ += shape.size(block);
    }
    ++grid_;
  }
  template <typename Sink>
  void flush(const Sink& sink) {
    if (filled_ > 0) sink(encoder_.finish());
    filled_ = 0;
  }

 private:
  const Survey& survey_;
  StripeEncoder encoder_;
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
