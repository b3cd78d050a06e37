#include "codec/delta/change.h"

#include <algorithm>
#include <bit>
#include <string>

#include "codec/delta/classes.h"
#include "codec/delta/elements.h"
#include "codec/delta/forms.h"
#include "gbcompress/error.h"

namespace gbcompress::codec {
namespace {

using Bytes = std::vector<std::byte>;

/// Below a twentieth of changed elements the sparse form is smaller and faster, above a fifth the
/// dense one is smaller. In between, and of tensors so small that tables count, both are made.
constexpr std::size_t kSparseShare = 20, kDenseShare = 5, kSmall = std::size_t{1} << 14;

delta::ElementForm checked_form(DType dtype, ChangeGrid grid, std::size_t bytes) {
  const auto form = delta::form_of(dtype);
  if (!form)
    throw Error(Errc::kUsage, "elements of type " + std::string(dtype_name(dtype)) +
                                  " have no differences; store the tensor whole");
  if (grid.rows < 1 || grid.cols < 1 ||
      static_cast<std::uint64_t>(grid.rows) > bytes / static_cast<std::uint64_t>(grid.cols) ||
      static_cast<std::size_t>(grid.rows * grid.cols * form->bytes) != bytes)
    throw Error(Errc::kUsage, "a change of " + std::to_string(bytes) + " bytes is no grid of " +
                                  std::to_string(grid.rows) + " x " + std::to_string(grid.cols));
  return *form;
}

/// Calls body with an unsigned integer of the elements' size.
template <typename Body>
auto for_size(int bytes, const Body& body) {
  switch (bytes) {
    case 1:
      return body(std::uint8_t{});
    case 2:
      return body(std::uint16_t{});
    case 4:
      return body(std::uint32_t{});
    default:
      return body(std::uint64_t{});
  }
}

std::size_t count_bits(std::span<const std::uint64_t> masks) {
  std::size_t count = 0;
  for (const std::uint64_t mask : masks) count += static_cast<std::size_t>(std::popcount(mask));
  return count;
}

}  // namespace

ChangeGrid change_grid(std::span<const std::int64_t> shape) noexcept {
  ChangeGrid grid;
  for (const std::int64_t side : shape) grid.cols *= side;
  if (shape.size() < 2 || shape[0] < 1) return grid;
  grid.rows = shape[0];
  grid.cols /= shape[0];
  return grid;
}

Bytes encode_change(DType dtype, ChangeGrid grid, std::span<const std::byte> base,
                    std::span<const std::byte> now, std::optional<ChangeForm> form) {
  const delta::ElementForm element = checked_form(dtype, grid, now.size());
  if (base.size() != now.size())
    throw Error(Errc::kUsage, "a tensor and its base have different sizes");
  const std::vector<std::uint64_t> differing = delta::differing_elements(base, now, element.bytes);
  return for_size(element.bytes, [&](auto unsigned_type) {
    using U = decltype(unsigned_type);
    const auto encode = [&](ChangeForm one) {
      Bytes section{static_cast<std::byte>(one)};
      const Bytes content =
          one == ChangeForm::kSparse
              ? delta::encode_sparse<U>(element.mantissa_bits, base, now, differing)
              : delta::encode_dense<U>(element.mantissa_bits, grid, base, now);
      section.insert(section.end(), content.begin(), content.end());
      return section;
    };
    if (form) return encode(*form);
    const std::size_t changed = count_bits(differing), all = base.size() / sizeof(U);
    if (all > kSmall && changed * kDenseShare >= all) return encode(ChangeForm::kDense);
    Bytes sparse = encode(ChangeForm::kSparse);
    if (changed * kSparseShare < all) return sparse;
    Bytes dense = encode(ChangeForm::kDense);
    return sparse.size() <= dense.size() ? sparse : dense;
  });
}

void apply_change(DType dtype, ChangeGrid grid, std::span<const std::byte> section,
                  std::span<std::byte> elements) {
  const delta::ElementForm element = checked_form(dtype, grid, elements.size());
  if (section.empty()) throw Error(Errc::kTruncated, "a change has no bytes; get the file again");
  const auto form = static_cast<ChangeForm>(section[0]);
  if (form != ChangeForm::kSparse && form != ChangeForm::kDense)
    throw Error(Errc::kUnsupported, "a change has the form " +
                                        std::to_string(std::to_integer<int>(section[0])) +
                                        ", which is unknown; upgrade gbcompress to read this file");
  for_size(element.bytes, [&](auto unsigned_type) {
    using U = decltype(unsigned_type);
    if (form == ChangeForm::kSparse)
      delta::apply_sparse<U>(element.mantissa_bits, section.subspan(1), elements);
    else
      delta::apply_dense<U>(element.mantissa_bits, grid, section.subspan(1), elements);
  });
}

}  // namespace gbcompress::codec
