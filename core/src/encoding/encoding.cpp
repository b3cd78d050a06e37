#include "gbcompress/encoding.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include "base/checked.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxTable = std::int64_t{1} << 28;

CodeTable make_table(std::int64_t count, std::int64_t width) {
  const std::int64_t values = checked_mul(count, width, "a table of position codes");
  if (values > kMaxTable)
    throw Error(Errc::kLimit, "a table of " + std::to_string(count) + " codes of " +
                                  std::to_string(width) +
                                  " inputs is too large; choose smaller tiles or another code");
  return {count, width, std::vector<float>(static_cast<std::size_t>(values))};
}

/// All kernel axes as one, positions in row-major order.
CodeTable encode_kernel(const std::vector<Encoding>& codes, const std::vector<std::int64_t>& dims) {
  if (codes.size() != dims.size())
    throw Error(Errc::kShapeMismatch, std::to_string(codes.size()) + " kernel codes for " +
                                          std::to_string(dims.size()) + " kernel dimensions");
  std::int64_t count = 1, width = 0;
  std::vector<CodeTable> axes;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    axes.push_back(encode_axis(codes[d], dims[d]));
    count = checked_mul(count, dims[d], "the kernel");
    width += axes.back().width;
  }
  CodeTable table = make_table(count, width);
  for (std::int64_t k = 0; k < count; ++k) {
    // The last axis runs fastest; its code ends the input.
    float* end = table.values.data() + (k + 1) * width;
    std::int64_t rest = k;
    for (std::size_t d = dims.size(); d-- > 0;) {
      const CodeTable& axis = axes[d];
      const float* code = axis.values.data() + rest % dims[d] * axis.width;
      rest /= dims[d];
      end -= axis.width;
      std::copy_n(code, axis.width, end);
    }
  }
  return table;
}

std::int64_t count_ones(const CodeTable& table) {
  std::int64_t ones = 0;
  for (float value : table.values) ones += value != 0;
  return ones;
}

}  // namespace

std::string_view encoding_name(Encoding encoding) noexcept {
  switch (encoding) {
    case Encoding::kBinary:
      return "binary";
    case Encoding::kGray:
      return "gray";
    case Encoding::kOneHot:
      return "one_hot";
  }
  return "";
}

std::optional<Encoding> parse_encoding(std::string_view name) noexcept {
  for (Encoding e : {Encoding::kBinary, Encoding::kGray, Encoding::kOneHot})
    if (encoding_name(e) == name) return e;
  return std::nullopt;
}

std::int64_t code_width(Encoding encoding, std::int64_t n) {
  if (n < 1)
    throw Error(Errc::kUsage, "an axis of " + std::to_string(n) + " positions has no code");
  if (encoding == Encoding::kOneHot) return n;
  return n == 1 ? 1 : std::bit_width(static_cast<std::uint64_t>(n - 1));
}

CodeTable encode_axis(Encoding encoding, std::int64_t n) {
  CodeTable table = make_table(n, code_width(encoding, n));
  const std::int64_t width = table.width;
  for (std::int64_t i = 0; i < n; ++i) {
    float* code = table.values.data() + i * width;
    if (encoding == Encoding::kOneHot) {
      code[i] = 1;
      continue;
    }
    const std::int64_t word = encoding == Encoding::kGray ? i ^ (i >> 1) : i;
    for (std::int64_t b = 0; b < width; ++b)
      code[b] = static_cast<float>(word >> (width - 1 - b) & 1);
  }
  return table;
}

TileCodes encode_tile(Encoding row_code, std::int64_t tile_rows, Encoding col_code,
                      std::int64_t tile_cols, const std::vector<Encoding>& kernel_codes,
                      const std::vector<std::int64_t>& kernel_dims) {
  TileCodes codes{encode_axis(row_code, tile_rows), encode_axis(col_code, tile_cols),
                  encode_kernel(kernel_codes, kernel_dims)};
  const char* what = "a tile times its inputs";
  const std::int64_t positions =
      checked_mul(checked_mul(tile_rows, tile_cols, what), codes.kernel.count, what);
  const std::int64_t values = checked_mul(positions, codes.inputs(), what);
  // Beyond 2^53 the counts below would no longer be exact in double.
  if (values > std::int64_t{1} << 53)
    throw Error(Errc::kLimit, std::string(what) + " is too large");

  // Codes are 0 or 1, so mean and deviation follow from how many ones all positions have together:
  // each code of an axis occurs once for every combination of the other axes.
  std::int64_t total = 0;
  for (const CodeTable* table : {&codes.rows, &codes.cols, &codes.kernel})
    total += count_ones(*table) * (positions / table->count);
  const auto count = static_cast<double>(values);
  const auto ones = static_cast<double>(total);
  const double mean = ones / count;
  const double squares = ones * ((1 - mean) * (1 - mean)) + (count - ones) * (mean * mean);
  const bool constant = total == 0 || total == values;
  const double deviation = constant ? 1 : std::sqrt(squares / (count - 1));
  const auto zero = static_cast<float>((0 - mean) / deviation);
  const auto one = static_cast<float>((1 - mean) / deviation);
  for (CodeTable* table : {&codes.rows, &codes.cols, &codes.kernel})
    for (float& value : table->values) value = value != 0 ? one : zero;
  return codes;
}

}  // namespace gbcompress
