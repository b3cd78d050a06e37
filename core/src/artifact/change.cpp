// Exact changes of tensors, by their shapes.
#include "codec/delta/change.h"

#include "codec/delta/elements.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

bool has_change(DType dtype) noexcept { return codec::delta::form_of(dtype).has_value(); }

std::vector<std::byte> encode_change(DType dtype, std::span<const std::int64_t> shape,
                                     std::span<const std::byte> base,
                                     std::span<const std::byte> now) {
  return codec::encode_change(dtype, codec::change_grid(shape), base, now);
}

void apply_change(DType dtype, std::span<const std::int64_t> shape,
                  std::span<const std::byte> section, std::span<std::byte> elements) {
  codec::apply_change(dtype, codec::change_grid(shape), section, elements);
}

}  // namespace gbcompress
