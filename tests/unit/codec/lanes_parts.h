#pragma once
/// Streams of profile `lanes` decoded in every way, on every level of the processor.

#include <cstring>
#include <functional>

#include "codec/lanes/decoder.h"
#include "codec/lanes/stream.h"
#include "gbcompress/error.h"
#include "support/targets.h"
#include "unit/codec/tensors.h"

namespace gbcompress::testing_codec {

using codec::lanes::Bfloat16;
using codec::lanes::Float16;
using testing::on_every_target;
inline constexpr CodecProfile kLanesProfile = CodecProfile::kLanes;

/// One grid's values as numbers, straight from its stripes.
/// @param row_scales  one a row, or one for all
template <typename Out>
std::vector<Out> decode_numbers(std::span<const std::byte> stream, const IntegerGrid& grid,
                                const std::vector<float>& row_scales) {
  using namespace codec::lanes;
  const StreamParts parts = stream_parts(stream);
  HeadReader reader(parts.head);
  const Entries entries(reader.sets());
  const Shape shape(grid);
  const GridHead head = reader.read(shape, grid.dependent);
  reader.finish();
  GridDecoder decoder(grid, head, entries);
  row_scales.size() > 1 ? decoder.set_row_scales(row_scales.data())
                        : decoder.set_scale(row_scales[0]);
  std::vector<Out> numbers(static_cast<std::size_t>(grid.size()));
  for (std::int64_t block = 0; block < shape.blocks(); ++block) {
    const auto stripe = parts.stripes.at(static_cast<std::size_t>(block));
    StripeReader stripes(stripe, static_cast<std::size_t>(parts.end - stripe.data()));
    if (!decoder.decode(block, stripes.cursor(), numbers.data() + shape.first(block)))
      throw_corrupt_stripe();
    stripes.finish();
  }
  return numbers;
}

/// A matrix whose rows and columns have scales of their own, some rows zero, some values huge.
inline Tensor lanes_tensor(std::int64_t rows, std::int64_t cols, bool dependent, double scale,
                           std::uint64_t seed) {
  Tensor tensor;
  tensor.grid = {rows, cols, 0, dependent};
  tensor.grid.lanes = dependent;
  const RandomStream random(seed, "lanes"), sizes(seed, "sizes");
  for (std::int64_t r = 0; r < rows; ++r)
    for (std::int64_t c = 0; c < cols; ++c) {
      const std::uint64_t i = tensor.values.size();
      const double row =
          r % 11 == 10 ? 0 : std::exp2(sizes.bits(2 * static_cast<std::uint64_t>(r)) % 300 / 100.0);
      const double col = std::exp2(sizes.bits(2 * static_cast<std::uint64_t>(c) + 1) % 200 / 100.0);
      double value = laplace(random, i, scale * row * col);
      if (sizes.bits(i + 1000000) % 700 == 0) value *= 4000;
      tensor.values.push_back(static_cast<std::int32_t>(
          std::lrint(std::clamp(value, -1.0 * kMaxMagnitude, 1.0 * kMaxMagnitude))));
    }
  return tensor;
}

}  // namespace gbcompress::testing_codec
