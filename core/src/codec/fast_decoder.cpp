#include "codec/fast_coder.h"
#include "codec/fast_model.h"

namespace gbcompress::codec {
namespace {

class FastDecoder final : public DecoderBackend {
 public:
  explicit FastDecoder(std::span<const std::byte> stream) : reader_(stream) {}

  void read(const IntegerGrid& grid, std::span<std::int32_t> values,
            std::span<const std::uint8_t> prior) override {
    Segments segments(grid);
    model_.begin(grid, segments, prior);
    for (Segment segment; segments.next(segment);) {
      reader_.begin_segment();
      model_.enter(segment);
      read_scale();
      for (std::int64_t i = segment.first; i < segment.last; ++i) {
        const std::size_t unit = model_.unit(i);
        const ScaleClass kind = model_.classify(unit);
        values[i] = read_value(kind);
        model_.saw(unit, kind.table, values[i]);
      }
      model_.leave(segment);
      reader_.end_segment();
    }
  }
  bool at_end() const override { return reader_.at_end(); }

 private:
  [[noreturn]] static void corrupt() {
    throw Error(Errc::kCorrupt, "a coded stream holds a number beyond 2^20; get the file again");
  }

  void read_scale() {
    const int symbol = model_.scale_table().read(reader_);
    const int scale = symbol == kScaleEscape
                          ? kLeastScale + static_cast<int>(reader_.take_even(kScaleBits))
                          : model_.row_scale() + symbol - kMostStep;
    if (scale < kLeastScale || scale > kMostScale) corrupt();
    model_.set_row_scale(scale);
  }

  int read_value(ScaleClass kind) {
    const int range = model_.range(kind.table);
    int high = model_.table(kind.table).read(reader_) - range;
    if (high > range) high = read_escape(kind.table);
    if (kind.shift == 0 && high >= -kMaxMagnitude && high <= kMaxMagnitude) return high;
    const std::int64_t value =
        std::int64_t{high} * (std::int64_t{1} << kind.shift) + read_low(kind.shift);
    if (value < -kMaxMagnitude || value > kMaxMagnitude) corrupt();
    return static_cast<int>(value);
  }

  int read_escape(int table) {
    const bool negative = reader_.take_even(1);
    const int order = model_.order(table);
    int bits = order;
    while (reader_.take_even(1))
      if (++bits > 21) corrupt();
    const auto code = static_cast<int>(1u << bits | read_low(bits));
    const int magnitude = code - (1 << order) + model_.range(table) + 1;
    return negative ? -magnitude : magnitude;
  }

  std::uint32_t read_low(int count) {
    std::uint32_t value = 0;
    for (; count > 0; count -= std::min(count, kProbabilityBits)) {
      const int now = std::min(count, kProbabilityBits);
      value = value << now | reader_.take_even(now);
    }
    return value;
  }

  FastModel model_{true};
  RansReader reader_;
};

}  // namespace

std::unique_ptr<DecoderBackend> make_fast_decoder(std::span<const std::byte> stream) {
  return std::make_unique<FastDecoder>(stream);
}

}  // namespace gbcompress::codec
