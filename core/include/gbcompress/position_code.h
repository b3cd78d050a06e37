#pragma once
/// Position codes: the inputs of a g-net for a weight's position in its tile. No LibTorch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class Encoding : std::uint8_t {
  kBinary,   ///< max(1, ceil(log2 n)) bits, most significant first
  kGray,     ///< the same width; neighbors differ in one bit
  kOneHot,   ///< n inputs
  kFourier,  ///< `size` pairs of sine and cosine, 1 to `size` periods along the axis
  kPixel,    ///< the axis is an image of `sides`; `size` cosines of each coordinate
  kLatent,   ///< `size` numbers of each position, trained with the g-net and part of it
};
std::string_view encoding_name(Encoding encoding) noexcept;  ///< "binary", "one_hot", "latent", ...

/// The code of one axis.
struct AxisCode {
  Encoding encoding = Encoding::kBinary;
  std::int64_t size = 0;            ///< kFourier, kPixel, kLatent: 1 to 1024; otherwise 0
  std::vector<std::int64_t> sides;  ///< kPixel: 1 to 8 sides in memory order; otherwise empty

  AxisCode() = default;
  AxisCode(Encoding e, std::int64_t n = 0,
           std::vector<std::int64_t> image = {})  // NOLINT: implicit
      : encoding(e), size(n), sides(std::move(image)) {}
  bool operator==(const AxisCode&) const = default;
};

/// As the configuration writes it: "gray", "fourier:4", "pixel:28x28:6", "latent:3".
std::string code_text(const AxisCode& code);
/// Nothing where the text is not a code. A size may be left out: fourier 4, pixel 4, latent 2.
std::optional<AxisCode> parse_code(std::string_view text);

/// Inputs that an axis of n positions needs.
/// @throws Error(kUsage) when n < 1, when the sizes are out of range, or when the sides of an image
///         do not multiply to n
std::int64_t code_width(const AxisCode& code, std::int64_t n);

/// Row-major table [count, width] of one axis (or of all kernel axes together). Trained codes have
/// no values here: they are parameters of each g-net.
struct CodeTable {
  std::int64_t count = 1;
  std::int64_t width = 0;
  bool trained = false;
  std::vector<float> values;
};

/// Codes 0 and 1, not normalized; waves with mean 0 and mean square 1 along the axis: sqrt(2) times
/// cos or sin, computed in double in one fixed way (artifact-format.md), rounded once.
/// @throws Error(kLimit) above 2^28 values, Error(kUsage) as code_width
CodeTable encode_axis(const AxisCode& code, std::int64_t n);

/// The codes of a whole tile. The input of position (i, j, k) is the concatenation of row i, column
/// j and kernel position k. Kernel axes are combined in row-major order of their positions.
struct TileCodes {
  CodeTable rows;
  CodeTable cols;
  CodeTable kernel;  ///< width 0 where the tensor has no kernel dimensions

  std::int64_t inputs() const noexcept { return rows.width + cols.width + kernel.width; }
};

/// Encodes each axis, then normalizes the codes of 0 and 1 together: over every position and every
/// such input the mean becomes 0 and the standard deviation (with n - 1, as torch.std) becomes 1.
/// Mean and deviation are computed in double, and each value is (code - mean) / deviation rounded
/// once to float. A tile whose codes are all equal is only centered. Waves and trained codes have
/// that mean and deviation by themselves.
/// @param kernel_codes  none of them trained
TileCodes encode_tile(const AxisCode& row_code, std::int64_t tile_rows, const AxisCode& col_code,
                      std::int64_t tile_cols, const std::vector<AxisCode>& kernel_codes,
                      const std::vector<std::int64_t>& kernel_dims);

}  // namespace gbcompress
