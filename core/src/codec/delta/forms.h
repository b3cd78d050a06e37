#pragma once
/// The two forms of a change's section, without the byte that names the form.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/delta/change.h"
#include "codec/delta/elements.h"

namespace gbcompress::codec::delta {

/// @param differing  of differing_elements()
template <typename U>
std::vector<std::byte> encode_sparse(int mantissa_bits, std::span<const std::byte> base,
                                     std::span<const std::byte> now,
                                     std::span<const std::uint64_t> differing);
template <typename U>
void apply_sparse(int mantissa_bits, std::span<const std::byte> section,
                  std::span<std::byte> elements);

template <typename U>
std::vector<std::byte> encode_dense(int mantissa_bits, ChangeGrid grid,
                                    std::span<const std::byte> base,
                                    std::span<const std::byte> now);
template <typename U>
void apply_dense(int mantissa_bits, ChangeGrid grid, std::span<const std::byte> section,
                 std::span<std::byte> elements);

#define GBC_DENSE(U)                                                                  \
  template <>                                                                         \
  std::vector<std::byte> encode_dense<U>(int, ChangeGrid, std::span<const std::byte>, \
                                         std::span<const std::byte>);                 \
  template <>                                                                         \
  void apply_dense<U>(int, ChangeGrid, std::span<const std::byte>, std::span<std::byte>);
GBC_DENSE(std::uint8_t)
GBC_DENSE(std::uint16_t)
GBC_DENSE(std::uint32_t)
GBC_DENSE(std::uint64_t)
#undef GBC_DENSE

}  // namespace gbcompress::codec::delta
