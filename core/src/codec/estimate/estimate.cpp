#include "codec/estimate/estimate.h"

#include "codec/estimate/scales.h"
#include "codec/estimate/size_model.h"

namespace gbcompress::codec {

double estimate_bits(const IntegerGrid& grid, std::span<const std::int32_t> values) {
  Segments segments(grid);
  SizeModel model(grid, segments.cols());
  double bits = 0;
  for (Segment segment; segments.next(segment);) bits += model.pass(segment, values);
  return bits;
}

}  // namespace gbcompress::codec
