#include <bit>
#include <cmath>

#include "codec/fast/fast_coder.h"
#include "codec/fast/fast_model.h"
#include "codec/small/logistic.h"

namespace gbcompress::codec {
namespace {

class FastEncoder final : public EncoderBackend {
 public:
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values,
           std::span<const std::uint8_t> prior) override {
    Segments segments(grid);
    model_.begin(grid, segments, prior);
    for (Segment segment; segments.next(segment);) {
      model_.enter(segment);
      encode(segment, values, fitting_scale(segment, values));
    }
  }

  void choose(const IntegerGrid& grid, const Target& target, std::span<const std::uint8_t> prior,
              std::span<std::int32_t> chosen) override {
    Segments segments(grid);
    model_.begin(grid, segments, prior);
    for (Segment segment; segments.next(segment);) {
      model_.enter(segment);
      for (std::int64_t i = segment.first; i < segment.last; ++i)
        chosen[i] = static_cast<std::int32_t>(std::lrint(target.scaled[i]));
      int scale = fitting_scale(segment, chosen);
      const int before = model_.row_scale();
      // Fewer bits make for a smaller scale, which makes zeros cheaper still.
      for (int pass = 0; pass < 2 && target.lambda > 0; ++pass) {
        model_.set_row_scale(scale);
        const FastModel::Classes classes = model_.classify(segment);
        const int quantizer = kTables * static_cast<int>(model_.state().quantizer());
        for (std::int64_t i = segment.first; i < segment.last; ++i) {
          const auto at = static_cast<std::size_t>(i - segment.first);
          chosen[i] =
              cheapest(i, {classes.tables[at] + quantizer, classes.shifts[at]}, target, grid.cols);
        }
        scale = fitting_scale(segment, chosen);
      }
      model_.set_row_scale(before);
      encode(segment, chosen, scale);
    }
  }

  double ideal_bits() const override { return writer_.bits(); }
  std::vector<std::byte> finish() override { return writer_.finish(); }

 private:
  /// The row scale under which these values, relative to their columns, have mean magnitude 1.
  int fitting_scale(const Segment& segment, std::span<const std::int32_t> values) const {
    std::uint64_t sum = 0, expected = 0;  // units of 2^-16
    for (std::int64_t i = segment.first; i < segment.last; ++i) {
      sum += static_cast<std::uint64_t>(std::abs(values[i])) << 16;
      expected += power(model_.unit_scale(model_.unit(i)));
    }
    const Logistic& tables = Logistic::tables();
    const int octaves = tables.log2(sum + 1) - tables.log2(expected + 1);  // units of 2^-8
    return std::clamp((octaves + 32) >> 6, kLeastScale, kMostScale);
  }

  void encode(const Segment& segment, std::span<const std::int32_t> values, int scale) {
    put_scale(scale);
    const FastModel::Classes classes = model_.classify(segment);
    QuantizerState state = model_.state();
    for (std::int64_t i = segment.first; i < segment.last; ++i) {
      const auto at = static_cast<std::size_t>(i - segment.first);
      const int table = classes.tables[at] + kTables * static_cast<int>(state.quantizer());
      put_value({table, classes.shifts[at]}, values[i]);
      model_.count(table);
      state.pass(values[i]);
    }
    model_.state() = state;
    model_.leave(segment, values);
    writer_.end_segment();
  }

  void put_symbol(ClassTable& table, int symbol) {
    writer_.put(table.part(symbol).start, table.part(symbol).width);
    table.saw(symbol);
  }

  void put_scale(int scale) {
    const int step = scale - model_.row_scale();
    const bool far = std::abs(step) > kMostStep;
    put_symbol(model_.scale_table(), far ? kScaleEscape : step + kMostStep);
    if (far) writer_.put_even(static_cast<std::uint32_t>(scale - kLeastScale), kScaleBits);
    model_.set_row_scale(scale);
  }

  void put_value(ScaleClass kind, int value) {
    const int high = value >> kind.shift;
    const int range = model_.range(kind.table);
    ClassTable& table = model_.table(kind.table);
    if (high >= -range && high <= range) {
      put_symbol(table, high + range);
    } else {
      put_symbol(table, 2 * range + 1);
      writer_.put_even(high < 0, 1);
      const int order = model_.order(kind.table);
      const std::uint32_t code =
          static_cast<std::uint32_t>(std::abs(high) - range - 1) + (1u << order);
      const int bits = std::bit_width(code) - 1;
      for (int i = order; i < bits; ++i) writer_.put_even(1, 1);
      writer_.put_even(0, 1);
      put_low(code, bits);
    }
    put_low(static_cast<std::uint32_t>(value), kind.shift);
  }

  /// The lowest bits, the highest of them first.
  void put_low(std::uint32_t value, int count) {
    for (; count > 0; count -= std::min(count, kProbabilityBits)) {
      const int now = std::min(count, kProbabilityBits);
      writer_.put_even(value >> (count - now) & ((1u << now) - 1), now);
    }
  }

  double price(ScaleClass kind, int value) {
    const int high = value >> kind.shift;
    const int range = model_.range(kind.table);
    const ClassTable& table = model_.table(kind.table);
    if (high >= -range && high <= range)
      return width_bits(table.part(high + range).width) + kind.shift;
    const int order = model_.order(kind.table);
    const auto beyond = static_cast<std::uint32_t>(std::abs(high) - range - 1);
    const int bits = std::bit_width(beyond + (1u << order)) - 1;
    return width_bits(table.part(2 * range + 1).width) + 2 * bits - order + 2 + kind.shift;
  }

  int cheapest(std::int64_t index, ScaleClass kind, const Target& target, std::int64_t cols) {
    const float scaled = target.scaled[index];
    const int nearest = static_cast<int>(std::lrint(scaled));
    if (nearest == 0) return 0;
    const double weight = target.weight(static_cast<std::size_t>(index), cols);
    int best = 0;
    double least = INFINITY;
    for (int candidate : {0, nearest - (nearest > 0 ? 1 : -1), nearest}) {
      const double error = static_cast<double>(scaled) - candidate;
      const double cost = weight * error * error + target.lambda * price(kind, candidate);
      if (cost < least) {
        least = cost;
        best = candidate;
      }
    }
    return best;
  }

  FastModel model_{false};
  RansWriter writer_;
};

}  // namespace

std::unique_ptr<EncoderBackend> make_fast_encoder() { return std::make_unique<FastEncoder>(); }

}  // namespace gbcompress::codec
