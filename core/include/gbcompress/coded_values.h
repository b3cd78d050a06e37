#pragma once
/// Tensors and g-net parameters as integers: step sizes, grids, codings. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/gnet.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// How g-net parameters are stored.
enum class Coding : std::uint8_t {
  kF32,    ///< exact
  kF16,    ///< rounded to nearest even
  kI8,     ///< -127..127 times one float32 scale for each weight and bias block of the g-net
  kCoded,  ///< integers times one step for each block, entropy-coded; training chooses them
};
std::string_view coding_name(Coding coding) noexcept;  ///< "fp32", "fp16", "int8", "coded"

/// Bytes that the g-net parameters of a specification take before zstd, scales included.
/// @throws Error(kUsage) for kCoded, whose size depends on the integers; so do the next two
std::int64_t coded_bytes(const GNetSpec& spec, Coding coding);
/// What decoding gives back: `theta` [tiles, parameters] rounded as `coding` would store it.
/// @throws Error(kNonFinite) for NaN, infinity, and what is too large for fp16
std::vector<float> round_trip(const GNetSpec& spec, Coding coding, std::span<const float> theta);

/// Steps are the numbers 2^(k / 16), k from kMinStep to kMaxStep: 2^-148 to 2^127.9, the range of
/// float32. Those below 2^-126 are rounded to what float32 has there.
inline constexpr int kMinStep = -2368, kMaxStep = 2047;
/// 2^(k / 16), with the same bits on every machine. @throws Error(kUsage) for k out of range
float step_size(int k);
/// The k whose step is nearest in the logarithm, within the range; kMinStep for what is not above
/// 0.
int nearest_step(float size);
/// How a tensor's integers lie unless a file says otherwise. Rows: the first of at least two
/// dimensions, else 1. Stride: the last dimension of a kernel (3 and more dimensions); the width of
/// the square image that a row of 64 or more values may be (2 dimensions); else 0.
IntegerGrid default_grid(const std::vector<std::int64_t>& shape);
/// The grid of the nibbles of integers: those of one element side by side, the lowest bits first.
IntegerGrid nibble_grid(const std::vector<std::int64_t>& shape, DType dtype);

/// How integers stand for elements bit for bit, with a table of exact numbers: a palette, whose
/// element integer + step is meant; factors, which float32(integer + step) is multiplied by; or
/// lines, whose elements are predicted from the two before and differ by integers.
struct LevelForm {
  DType dtype = DType::kF32;       ///< of the tensor: F16, BF16, F32 or F64
  std::int64_t palette = 0;        ///< elements of the palette, 1 to kMaxPalette
  std::int64_t block_rows = 0;     ///< sides of the blocks of the grid that share a factor; the
  std::int64_t block_cols = 0;     ///< last ones are cut off
  std::int64_t negative_zero = 0;  ///< with factors: integer + step that stands for -0; 0: none
  std::int64_t positions = 0;      ///< of a line, and elements from one of its positions to the
  std::int64_t stride = 0;         ///< next; not of F64
#ifdef GBZ_WITHOUT_LEVELS
  bool used() const noexcept { return false; }
#else
  bool used() const noexcept { return palette > 0 || block_rows > 0 || positions > 0; }
#endif
};
inline constexpr std::int64_t kMaxPalette = 4096;

/// A tensor as integers: value = float32(integer) * step_size(step + its row's offset); where the
/// grid is dependent, quantizer 1 has float32(integer less half its sign) there. With mantissa_bits
/// the integers are short floats (float_code.h) whose largest exponent is `step`. In a tensor of
/// integer type an integer stands for integer + step; nibbles are four bits of an element each.
/// With an axis the values are cosine coefficients along that dimension of the tensor.
struct CodedValues {
  IntegerGrid grid;                     ///< of as many numbers as the tensor has, at least 1
  std::vector<std::int32_t> integers;   ///< [rows, cols]
  int step = 0;                         ///< k of step_size(), an exponent or an offset
  std::vector<std::int32_t> row_steps;  ///< empty, or what is added to `step` in each row
  int mantissa_bits = 0;                ///< 0: steps; 1 to kMaxMantissaBits: short floats
  bool nibbles = false;                 ///< of an integer type; the grid is nibble_grid()
  int axis = -1;                        ///< of a cosine transform; -1: none
  bool on_base = false;                 ///< added to the tensor of that name in the file's base
  LevelForm levels;                     ///< used(): `step` is an offset
  /// With levels: bytes of the table's numbers less 128, the highest of all of them first.
  std::vector<std::int32_t> level_table;
};
inline constexpr int kMaxMantissaBits = 16;
/// The float32 values [rows, cols]. @throws Error(kUsage) where sizes or steps do not fit
std::vector<float> coded_floats(const CodedValues& values);
/// Bytes of a tensor of that type, row-major and little-endian; integer types are exact.
/// @throws Error(kCorrupt) for an integer out of the type's range; as coded_floats()
std::vector<std::byte> coded_elements(const CodedValues& values, DType dtype);
/// The integers of a coded tensor by themselves, for ArtifactWriter::add_coded_section(), which
/// puts those of profile lanes together with others'. [thread-safe]
/// @param profile  lanes or small; dependent grids have their states in lanes with lanes alone
/// @throws Error(kUsage, kLimit) as ArtifactWriter::encode()
std::vector<std::byte> encode_section(const CodedValues& values,
                                      CodecProfile profile = CodecProfile::kLanes);
/// True for the types whose elements may be stored as integers: real and integer types.
bool is_codable(DType dtype) noexcept;

/// G-net parameters as integers.
struct CodedTheta {
  std::vector<int> steps;              ///< one for each block of gnet_blocks()
  std::vector<std::int32_t> integers;  ///< [tiles, parameters]
};
/// The float32 parameters [tiles, parameters]. @throws Error(kUsage) where it does not fit `spec`
std::vector<float> coded_floats(const GNetSpec& spec, const CodedTheta& theta);

/// The prior class of an integer whose stochastic g-net predicts a standard deviation of
/// output_scale * exp(log_deviation): half octaves, 0 below exp(-2.8), 15 above exp(2.4).
std::uint8_t prior_class(float log_deviation) noexcept;

}  // namespace gbcompress
