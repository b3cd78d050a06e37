#include "codec/fast/fast_coder.h"
#include "codec/fast/fast_model.h"

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
      const auto part = values.subspan(static_cast<std::size_t>(segment.first),
                                       static_cast<std::size_t>(segment.last - segment.first));
      grid.dependent ? read_values<true>(segment, part) : read_values<false>(segment, part);
      model_.leave(segment, values);
      reader_.end_segment();
    }
  }
  bool at_end() const override { return reader_.at_end(); }

 private:
  [[noreturn]] static void corrupt() {
    throw Error(Errc::kCorrupt, "a coded stream holds a value beyond 2^20; get the file again");
  }

  void read_scale() {
    const int symbol = model_.scale_table().read(reader_);
    const int scale = symbol == kScaleEscape
                          ? kLeastScale + static_cast<int>(reader_.take_even(kScaleBits))
                          : model_.row_scale() + symbol - kMostStep;
    if (scale < kLeastScale || scale > kMostScale) corrupt();
    model_.set_row_scale(scale);
  }

  /// What changes with each value is local, so that writing values cannot touch it.
  template <bool Dependent>
  void read_values(const Segment& segment, std::span<std::int32_t> values) {
    constexpr int kAll = Dependent ? 2 * kTables : kTables;
    const std::uint32_t* lookups[kAll];
    std::uint32_t* seen[kAll];
    int ranges[kAll];
    for (int table = 0; table < kAll; ++table) {
      lookups[table] = model_.table(table).lookup();
      seen[table] = model_.table(table).seen();
      ranges[table] = model_.range(table);
    }
    const FastModel::Classes classes = model_.classify(segment);
    auto& fresh = model_.fresh();
    QuantizerState state = model_.state();
    RansReader reader = reader_;
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::uint32_t table = classes.tables[i];
      const std::uint32_t slot = reader.peek();
      std::uint32_t entry = lookups[table][slot];
      if constexpr (Dependent) {
        // Which one holds the value before decides, later than both can be fetched.
        const std::uint32_t second = 0u - state.quantizer();
        entry ^= (entry ^ lookups[table + kTables][slot]) & second;
        table += kTables & second;
      }
      reader.take(entry >> 20, entry >> 8 & (kWhole - 1));
      const std::uint32_t symbol = entry & 255;
      ++seen[table][symbol];
      ++fresh[table];
      int value = static_cast<int>(symbol) - ranges[table];
      if (value > ranges[table] || classes.shifts[i] > 0) [[unlikely]]
        value = rest_of(reader, value, static_cast<int>(table), classes.shifts[i]);
      values[i] = value;
      if constexpr (Dependent) state.pass(value);
    }
    model_.state() = state;
    reader_ = reader;
  }

  /// An escape, and the bits below a symbol.
  static int rest_of(RansReader& reader, int high, int table, int shift) {
    if (high > table_range(table % kTables)) high = read_escape(reader, table % kTables);
    const std::int64_t value =
        std::int64_t{high} * (std::int64_t{1} << shift) + read_low(reader, shift);
    if (value < -kMaxMagnitude || value > kMaxMagnitude) corrupt();
    return static_cast<int>(value);
  }

  static int read_escape(RansReader& reader, int table) {
    const bool negative = reader.take_even(1);
    const int order = escape_order(table);
    int bits = order;
    while (reader.take_even(1))
      if (++bits > 21) corrupt();
    const auto code = static_cast<int>(1u << bits | read_low(reader, bits));
    const int magnitude = code - (1 << order) + table_range(table) + 1;
    return negative ? -magnitude : magnitude;
  }

  static std::uint32_t read_low(RansReader& reader, int count) {
    std::uint32_t value = 0;
    for (; count > 0; count -= std::min(count, kProbabilityBits)) {
      const int now = std::min(count, kProbabilityBits);
      value = value << now | reader.take_even(now);
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
