#include "gbcompress/gnet.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>
#include <string>

#include "base/checked.h"
#include "encoding/waves.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kMaxTable = std::int64_t{1} << 28;

constexpr std::int64_t kMaxSize = 1024;

bool has_size(Encoding encoding) {
  return encoding == Encoding::kFourier || encoding == Encoding::kPixel ||
         encoding == Encoding::kLatent;
}
/// True for codes of 0 and 1, which are normalized over the tile.
bool is_digital(const CodeTable& table, const AxisCode& code) {
  return table.width > 0 && !has_size(code.encoding);
}

void check_code(const AxisCode& code, std::int64_t n) {
  if (n < 1)
    throw Error(Errc::kUsage, "an axis of " + std::to_string(n) + " positions has no code");
  if (encoding_name(code.encoding).empty() ||
      (has_size(code.encoding) ? code.size < 1 || code.size > kMaxSize : code.size != 0) ||
      (code.encoding == Encoding::kPixel ? code.sides.empty() || code.sides.size() > 8
                                         : !code.sides.empty()))
    throw Error(Errc::kUsage, "the code " + code_text(code) +
                                  " is not possible; its size must be 1 to " +
                                  std::to_string(kMaxSize));
  if (code.encoding != Encoding::kPixel) return;
  std::int64_t positions = 1;
  for (std::int64_t side : code.sides)
    positions = side < 1 ? 0 : checked_mul(positions, side, "the sides of an image");
  if (positions != n)
    throw Error(Errc::kUsage, "the code " + code_text(code) + " describes " +
                                  std::to_string(positions) + " positions, its axis has " +
                                  std::to_string(n) + "; give the sides of the whole axis");
}

/// Cosines that one coordinate of an image can tell apart.
std::int64_t pixel_waves(const AxisCode& code, std::int64_t side) {
  return std::min(code.size, side - 1);
}

CodeTable make_table(std::int64_t count, std::int64_t width) {
  const std::int64_t values = checked_mul(count, width, "a table of position codes");
  if (values > kMaxTable)
    throw Error(Errc::kLimit, "a table of " + std::to_string(count) + " codes of " +
                                  std::to_string(width) +
                                  " inputs is too large; choose smaller tiles or another code");
  return {count, width, false, std::vector<float>(static_cast<std::size_t>(values))};
}

std::vector<CodeTable> kernel_axes(const std::vector<AxisCode>& codes,
                                   const std::vector<std::int64_t>& dims) {
  if (codes.size() != dims.size())
    throw Error(Errc::kShapeMismatch, std::to_string(codes.size()) + " kernel codes for " +
                                          std::to_string(dims.size()) + " kernel dimensions");
  std::vector<CodeTable> axes;
  for (std::size_t d = 0; d < dims.size(); ++d) {
    axes.push_back(encode_axis(codes[d], dims[d]));
    if (axes.back().trained)
      throw Error(Errc::kUsage, "a kernel axis cannot have a latent code; use one_hot");
  }
  return axes;
}

/// All kernel axes as one, positions in row-major order.
CodeTable combine(const std::vector<CodeTable>& axes) {
  std::int64_t count = 1, width = 0;
  for (const CodeTable& axis : axes) {
    count = checked_mul(count, axis.count, "the kernel");
    width += axis.width;
  }
  CodeTable table = make_table(count, width);
  for (std::int64_t k = 0; k < count; ++k) {
    // The last axis runs fastest; its code ends the input.
    float* end = table.values.data() + (k + 1) * width;
    std::int64_t rest = k;
    for (std::size_t d = axes.size(); d-- > 0;) {
      const CodeTable& axis = axes[d];
      const float* code = axis.values.data() + rest % axis.count * axis.width;
      rest /= axis.count;
      end -= axis.width;
      std::copy_n(code, axis.width, end);
    }
  }
  return table;
}

/// Fills a table [n, width] from column `first` on: wave f along positions 0 ... side-1, where
/// position n has coordinate n / step % side.
void fill_cosines(CodeTable& table, std::int64_t first, std::int64_t side, std::int64_t step,
                  std::int64_t waves) {
  for (std::int64_t n = 0; n < table.count; ++n)
    for (std::int64_t f = 1; f <= waves; ++f)
      table.values[static_cast<std::size_t>(n * table.width + first + f - 1)] = static_cast<float>(
          std::numbers::sqrt2 * cos_pi(f * (2 * (n / step % side) + 1), 2 * side));
}

void fill_fourier(CodeTable& table, std::int64_t pairs) {
  const std::int64_t n = table.count;
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t f = 1; f <= pairs; ++f) {
      float* pair = table.values.data() + i * table.width + 2 * (f - 1);
      const std::int64_t turns = f * (2 * i + 1);  // of pi / n; sine is cosine half a pi later
      pair[0] = static_cast<float>(std::numbers::sqrt2 * cos_pi(2 * turns + 3 * n, 2 * n));
      pair[1] = static_cast<float>(std::numbers::sqrt2 * cos_pi(turns, n));
    }
}

/// What the codes of 0 and 1 become.
struct Normal {
  float zero, one;
};
Normal normalise(std::int64_t total, std::int64_t values) {
  const auto count = static_cast<double>(values);
  const auto ones = static_cast<double>(total);
  const double mean = ones / count;
  const double squares = ones * ((1 - mean) * (1 - mean)) + (count - ones) * (mean * mean);
  const bool constant = total == 0 || total == values;
  const double deviation = constant ? 1 : std::sqrt(squares / (count - 1));
  return {static_cast<float>((0 - mean) / deviation), static_cast<float>((1 - mean) / deviation)};
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
    case Encoding::kFourier:
      return "fourier";
    case Encoding::kPixel:
      return "pixel";
    case Encoding::kLatent:
      return "latent";
  }
  return "";
}

std::int64_t code_width(const AxisCode& code, std::int64_t n) {
  check_code(code, n);
  switch (code.encoding) {
    case Encoding::kOneHot:
      return n;
    case Encoding::kFourier:
      return 2 * code.size;
    case Encoding::kLatent:
      return code.size;
    case Encoding::kPixel: {
      std::int64_t width = 0;
      for (std::int64_t side : code.sides) width += pixel_waves(code, side);
      return std::max<std::int64_t>(width, 1);
    }
    default:
      return n == 1 ? 1 : std::bit_width(static_cast<std::uint64_t>(n - 1));
  }
}

CodeTable encode_axis(const AxisCode& code, std::int64_t n) {
  const std::int64_t width = code_width(code, n);
  if (code.encoding == Encoding::kLatent) return {n, width, true, {}};
  CodeTable table = make_table(n, width);
  if (code.encoding == Encoding::kFourier) {
    fill_fourier(table, code.size);
    return table;
  }
  if (code.encoding == Encoding::kPixel) {
    std::int64_t step = n, first = 0;
    for (std::int64_t side : code.sides) {
      step /= side;
      fill_cosines(table, first, side, step, pixel_waves(code, side));
      first += pixel_waves(code, side);
    }
    return table;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    float* row = table.values.data() + i * width;
    if (code.encoding == Encoding::kOneHot) {
      row[i] = 1;
      continue;
    }
    const std::int64_t word = code.encoding == Encoding::kGray ? i ^ (i >> 1) : i;
    for (std::int64_t b = 0; b < width; ++b)
      row[b] = static_cast<float>(word >> (width - 1 - b) & 1);
  }
  return table;
}

TileCodes encode_tile(const AxisCode& row_code, std::int64_t tile_rows, const AxisCode& col_code,
                      std::int64_t tile_cols, const std::vector<AxisCode>& kernel_codes,
                      const std::vector<std::int64_t>& kernel_dims) {
  TileCodes codes{encode_axis(row_code, tile_rows), encode_axis(col_code, tile_cols), {}};
  const char* what = "a tile times its inputs";
  std::int64_t positions = checked_mul(tile_rows, tile_cols, what);
  for (std::int64_t side : kernel_dims) positions = checked_mul(positions, side, what);

  // Mean and deviation follow from how many ones all positions have together: each code of an axis
  // occurs once for every combination of the other axes.
  std::int64_t ones = 0, values = 0;
  const auto count = [&](const CodeTable& table, const AxisCode& code) {
    if (!is_digital(table, code)) return;
    for (float value : table.values) ones += value != 0 ? positions / table.count : 0;
    values = checked_add(values, checked_mul(positions, table.width, what), what);
  };
  count(codes.rows, row_code);
  count(codes.cols, col_code);
  std::vector<CodeTable> axes = kernel_axes(kernel_codes, kernel_dims);
  for (std::size_t d = 0; d < axes.size(); ++d) count(axes[d], kernel_codes[d]);
  // Beyond 2^53 the counts would no longer be exact in double.
  if (values > std::int64_t{1} << 53)
    throw Error(Errc::kLimit, std::string(what) + " is too large");
  if (values > 0) {
    const Normal normal = normalise(ones, values);
    const auto apply = [&](CodeTable& table, const AxisCode& code) {
      if (!is_digital(table, code)) return;
      for (float& value : table.values) value = value != 0 ? normal.one : normal.zero;
    };
    apply(codes.rows, row_code);
    apply(codes.cols, col_code);
    for (std::size_t d = 0; d < axes.size(); ++d) apply(axes[d], kernel_codes[d]);
  }
  codes.kernel = combine(axes);
  return codes;
}

}  // namespace gbcompress
