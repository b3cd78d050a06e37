#include <cstdint>

#include "gnet/fused.h"

namespace gbcompress {
namespace {
constexpr std::int64_t kPad = 16;  // floats: the widest vector there is, 64 bytes
std::int64_t padded(std::int64_t n) { return (n + kPad - 1) / kPad * kPad; }
}  // namespace

std::vector<BankShape::Layer> FusedPiece::layers() const {
  auto result = shape.layers();
  auto& top = result.back();
  top.weight += output * top.inputs;
  top.bias += output;
  top.outputs = 1;
  return result;
}

FusedCodes fused_codes(const BankShape& shape, bool swapped, const float* theta) {
  if (is_product(shape.generator)) return {};
  const CodeTable& outer = swapped ? shape.codes.cols : shape.codes.rows;
  const CodeTable& inner = swapped ? shape.codes.rows : shape.codes.cols;
  const CodeTable& kernel = shape.codes.kernel;
  FusedCodes codes;
  codes.outer_width = outer.width;
  codes.inner_width = inner.width;
  codes.kernel_width = kernel.width;
  codes.outer_input = swapped ? shape.codes.rows.width : 0;
  codes.inner_input = swapped ? 0 : shape.codes.rows.width;
  codes.kernel_input = shape.codes.rows.width + shape.codes.cols.width;
  codes.inner_count = inner.count;
  const auto latents = [&](bool rows) { return rows ? shape.row_latents() : shape.col_latents(); };
  if (outer.trained) codes.outer_latents = latents(!swapped);
  if (inner.trained) codes.inner_latents = latents(swapped);
  codes.outer_rows = outer.trained ? theta + codes.outer_latents : outer.values.data();
  codes.inner_rows = inner.trained ? theta + codes.inner_latents : inner.values.data();
  codes.kernel_rows = kernel.values.data();
  codes.stride = padded(inner.count * shape.kernel);
  codes.inner_columns.assign(static_cast<std::size_t>((inner.width + kernel.width) * codes.stride),
                             0.0f);
  for (std::int64_t j = 0; j < inner.count; ++j) {
    for (std::int64_t k = 0; k < shape.kernel; ++k) {
      float* column = codes.inner_columns.data() + j * shape.kernel + k;
      for (std::int64_t c = 0; c < inner.width; ++c, column += codes.stride)
        *column = codes.inner_rows[j * inner.width + c];
      for (std::int64_t c = 0; c < kernel.width; ++c, column += codes.stride)
        *column = codes.kernel_rows[k * kernel.width + c];
    }
  }
  return codes;
}

void FusedScratch::reserve(std::int64_t floats) {
  used = 0;
  const auto wanted = static_cast<std::size_t>(floats + kPad);
  if (values.size() < wanted) values.resize(wanted);
}

float* FusedScratch::take(std::int64_t count) {
  const auto address = reinterpret_cast<std::uintptr_t>(values.data());
  const std::int64_t shift = static_cast<std::int64_t>((64 - address % 64) % 64 / sizeof(float));
  float* result = values.data() + shift + used;
  used += padded(count);
  return result;
}

}  // namespace gbcompress
