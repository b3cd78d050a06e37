#pragma once
/// Position codes: what a g-net sees of a weight's place in its tile.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace gbcompress {

enum class Encoding : std::uint8_t {
  kBinary,  ///< max(1, ceil(log2 n)) bits, most significant first
  kGray,    ///< the same width; neighbours differ in one bit
  kOneHot,  ///< n inputs
};

std::string_view encoding_name(Encoding encoding) noexcept;  ///< "binary", "gray", "one_hot"
std::optional<Encoding> parse_encoding(std::string_view name) noexcept;

/// Inputs that an axis of n positions needs. @throws Error(kUsage) when n < 1
std::int64_t code_width(Encoding encoding, std::int64_t n);

/// Row-major table [count, width] of one axis (or of all kernel axes together).
struct CodeTable {
  std::int64_t count = 1;
  std::int64_t width = 0;
  std::vector<float> values;
};

/// Codes 0 and 1, not normalised. @throws Error(kLimit) above 2^28 values
CodeTable encode_axis(Encoding encoding, std::int64_t n);

/// The codes of a whole tile. The input of position (i, j, k) is the concatenation of row i, column
/// j and kernel position k. Kernel axes are combined in row-major order of their positions.
struct TileCodes {
  CodeTable rows;
  CodeTable cols;
  CodeTable kernel;  ///< width 0 where the tensor has no kernel dimensions

  std::int64_t inputs() const noexcept { return rows.width + cols.width + kernel.width; }
};

/// Encodes each axis, then normalises all codes of the tile together: over every position and every
/// input the mean becomes 0 and the standard deviation (with n - 1, as torch.std) becomes 1. Mean
/// and deviation are computed in double, and each value is (code - mean) / deviation rounded once
/// to float. A tile whose codes are all equal is only centred.
TileCodes encode_tile(Encoding row_code, std::int64_t tile_rows, Encoding col_code,
                      std::int64_t tile_cols, const std::vector<Encoding>& kernel_codes,
                      const std::vector<std::int64_t>& kernel_dims);

}  // namespace gbcompress
