#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/byte_reader.h"
#include "codec/delta/dense_model.h"
#include "codec/delta/forms.h"
#include "gbcompress/error.h"

namespace gbcompress::codec::delta {
namespace {

/// Elements between two places where a chunk of the stream may end.
constexpr std::size_t kElementsASegment = 4096;
/// Levels that so few elements exceed do not count: infinities among them.
constexpr std::size_t kRare = 4096;

/// The level that counts as 0: 24 below the highest that is not rare, at least 1.
template <typename U>
std::uint16_t lowest_level(std::span<const std::byte> base, int mantissa_bits) {
  if (mantissa_bits == 0) return 1;
  std::vector<std::size_t> counts(std::size_t{1} << (kBits<U> - 1 - mantissa_bits));
  const std::size_t n = base.size() / sizeof(U);
  for (std::size_t i = 0; i < n; ++i)
    ++counts[level_of(load<U>(base.data() + i * sizeof(U)), mantissa_bits)];
  std::size_t top = counts.size() - 1;
  for (std::size_t above = counts[top]; top > 1 && above <= n / kRare; above += counts[top]) --top;
  return static_cast<std::uint16_t>(top > kMostShift ? top - kMostShift : 1);
}

unsigned shift_of(unsigned level, unsigned lowest) {
  return level <= lowest ? 0 : std::min(level - lowest, kMostShift);
}

/// Calls body(place, column) for every element, and end() between two segments.
template <typename Body, typename End>
void for_elements(ChangeGrid grid, DenseModel& model, const Body& body, const End& end) {
  std::size_t place = 0;
  const auto all = static_cast<std::size_t>(grid.rows * grid.cols);
  for (std::int64_t row = 0; row < grid.rows; ++row) {
    model.begin_row(row);
    for (std::int64_t col = 0; col < grid.cols; ++col) {
      body(place++, static_cast<std::size_t>(col));
      if (place % kElementsASegment == 0 && place < all) end();
    }
  }
}

}  // namespace

template <typename U>
std::vector<std::byte> encode_dense(int mantissa_bits, ChangeGrid grid,
                                    std::span<const std::byte> base,
                                    std::span<const std::byte> now) {
  const bool floats = mantissa_bits > 0;
  const std::uint16_t lowest = lowest_level<U>(base, mantissa_bits);
  const auto model = std::make_unique<DenseModel>(grid, kBits<U>);
  RansWriter out;
  for_elements(
      grid, *model,
      [&](std::size_t i, std::size_t col) {
        const U before = load<U>(base.data() + i * sizeof(U));
        const U after = load<U>(now.data() + i * sizeof(U));
        const auto difference = static_cast<std::make_signed_t<U>>(
            static_cast<U>(to_ordered(after, floats) - to_ordered(before, floats)));
        model->put(out, col, shift_of(level_of(before, mantissa_bits), lowest), difference);
      },
      [&] { out.end_segment(); });
  std::vector<std::byte> section;
  append_number(section, lowest);
  const std::vector<std::byte> stream = out.finish();
  section.insert(section.end(), stream.begin(), stream.end());
  return section;
}

template <typename U>
void apply_dense(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section,
                 std::span<std::byte> elements) {
  const bool floats = mantissa_bits > 0;
  ByteReader head(section, "a dense change");
  const auto lowest = head.read<std::uint16_t>();
  const auto model = std::make_unique<DenseModel>(grid, kBits<U>);
  RansReader in(section.subspan(head.position()));
  in.begin_segment();
  for_elements(
      grid, *model,
      [&](std::size_t i, std::size_t col) {
        std::byte* at = elements.data() + i * sizeof(U);
        const U before = load<U>(at);
        const auto difference =
            static_cast<U>(model->get(in, col, shift_of(level_of(before, mantissa_bits), lowest)));
        store(at, from_ordered(static_cast<U>(to_ordered(before, floats) + difference), floats));
      },
      [&] {
        in.end_segment();
        in.begin_segment();
      });
  if (!in.at_end())
    throw Error(Errc::kCorrupt, "a dense change does not end with its stream; get the file again");
}

#define GBC_DENSE(U)                                                                           \
  template std::vector<std::byte> encode_dense<U>(int, ChangeGrid, std::span<const std::byte>, \
                                                  std::span<const std::byte>);                 \
  template void apply_dense<U>(int, ChangeGrid, std::span<const std::byte>, std::span<std::byte>);
GBC_DENSE(std::uint8_t)
GBC_DENSE(std::uint16_t)
GBC_DENSE(std::uint32_t)
GBC_DENSE(std::uint64_t)
#undef GBC_DENSE

}  // namespace gbcompress::codec::delta
