#pragma once
/// Lossless coding of quantized tensors (codec.md): integers in, few bytes out. LibTorch-free.
/// Whatever decides a probability is integer arithmetic in one fixed order, so that a stream
/// decodes to the same integers on every processor.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

enum class CodecProfile : std::uint8_t {
  kSmall,  ///< mixed adaptive contexts, about half a microsecond a weight: every byte counts
  kLanes,  ///< 64 lanes of rANS with tables made in advance, above a billion weights a second and
           ///< core with AVX-512 (docs/reference/lanes.md)
};
std::string_view profile_name(CodecProfile profile) noexcept;  ///< "small", "lanes"

/// Magnitudes beyond it are refused: a step that small says nothing any more.
inline constexpr std::int32_t kMaxMagnitude = 1 << 20;

/// The layout of a tensor's integers, row-major, which contexts depend on. At most 2^28,
/// with profile lanes 2^31.
struct IntegerGrid {
  std::int64_t rows = 1;  ///< outputs; at least 1
  std::int64_t cols = 1;  ///< everything else; at least 1
  /// Distance of neighbors inside a row beside 1: the width of the image that a row is (28 for
  /// 784 inputs), or of a kernel (3 for [out, in, 3, 3]); 0: none. Below cols.
  std::int64_t stride = 0;
  /// Quantizers 0 and 1 alternate by the parities of the integers (codec.md): under quantizer 1
  /// an integer k other than 0 stands for half a step less in magnitude.
  bool dependent = false;
  /// Magnitudes are mostly beyond some ten, as those of int8 weights: they are coded bit by bit.
  /// The profile small alone knows the difference; not together with `dependent`.
  bool wide = false;
  /// Of dependent grids with the profile lanes: 64 states take turns from value to value, and
  /// begin anew with each block (docs/reference/lanes.md); else one state passes all values.
  bool lanes = false;
  std::int64_t size() const { return rows * cols; }
};

/// How the integers of untrained tensors are chosen.
enum class Quantizer : std::uint8_t {
  kNearest,  ///< each by itself
  kTrellis,  ///< dependent grids, all of a tensor together
};
std::string_view quantizer_name(Quantizer quantizer) noexcept;  ///< "nearest", "trellis"
/// Chooses the integers of a dependent grid: about 0.2 bits per weight less than the nearest ones
/// at the same squared error. LibTorch-free and without threads of its own: parts of a tensor are
/// independent, and may be chosen at the same time.
class Trellis {
 public:
  /// @param values  [rows, cols], finite; must outlive this
  /// @throws Error(kUsage) where sizes do not fit
  Trellis(const IntegerGrid& grid, std::span<const float> values);

  /// At least 1; each has some ten thousand numbers, or all that there are. Of lanes: a block.
  std::int64_t parts() const noexcept;
  /// Chooses the integers of one part, for the least squared error plus lambda times bits, lambda
  /// by the step size. Every processor chooses the same.
  /// @param step      a power 2^(k / 16)
  /// @param integers  of the whole tensor; those of other parts stay as they are. Magnitudes may be
  ///                  beyond kMaxMagnitude where the step is too small
  /// @return the sum of squared errors of this part
  double choose(std::int64_t part, float step, std::span<std::int32_t> integers) const;

 private:
  std::vector<std::int8_t> classes(std::int64_t first, std::int64_t end, float step) const;
  double choose_lanes(std::int64_t block, float step, std::span<std::int32_t> integers) const;

  std::span<const float> values_;
  std::int64_t cols_;
  bool lanes_;
  std::int64_t bands_, band_size_;  ///< runs of numbers that begin and end in state 0
  std::vector<std::int16_t> row_scales_, col_scales_;  ///< sixteenths of octaves, they add up
};

/// Codes tensors one after another into one stream; later tensors profit from earlier ones.
class IntegerEncoder {
 public:
  explicit IntegerEncoder(CodecProfile profile);
  ~IntegerEncoder();
  IntegerEncoder(IntegerEncoder&&) noexcept;
  IntegerEncoder& operator=(IntegerEncoder&&) noexcept;

  /// @param values  [rows, cols], magnitudes up to kMaxMagnitude
  /// @param prior   empty, or one class 0 ... 15 a value that the decoder will know as well: what a
  ///                g-net expects of the value's magnitude
  /// @throws Error(kUsage) for sizes that do not fit, classes above 15, values beyond the bound and
  ///         dependent grids whose states are in lanes with another profile, or are not with lanes
  void add(const IntegerGrid& grid, std::span<const std::int32_t> values,
           std::span<const std::uint8_t> prior = {});

  /// As add() after choosing the integers: for each number in turn, of the nearest integer and the
  /// next one towards zero (and zero), the one with the least
  ///   importance * (scaled - integer)^2 + lambda * bits,
  /// where bits is what the coder, as it stands, takes for it.
  /// @param scaled      [rows, cols] numbers in units of the step
  /// @param importance  empty (1 everywhere), one a column (cols numbers), or one a value
  /// @param lambda      0: the nearest integers
  /// @return the integers that were coded
  /// @throws Error(kUsage) for sizes that do not fit, numbers beyond kMaxMagnitude, a lambda that
  ///         is not 0 or above, and dependent grids
  std::vector<std::int32_t> quantize_and_add(const IntegerGrid& grid, std::span<const float> scaled,
                                             std::span<const float> importance, double lambda,
                                             std::span<const std::uint8_t> prior = {});

  /// Ideal code length of everything so far: the sum of -log2 p, bits.
  double ideal_bits() const;
  /// The stream; the encoder is spent.
  std::vector<std::byte> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class IntegerDecoder {
 public:
  /// @param stream  must outlive the decoder; anything may be in it
  IntegerDecoder(CodecProfile profile, std::span<const std::byte> stream);
  ~IntegerDecoder();
  IntegerDecoder(IntegerDecoder&&) noexcept;
  IntegerDecoder& operator=(IntegerDecoder&&) noexcept;

  /// The integers of the next tensor; grids and priors as they were encoded.
  /// @throws Error(kCorrupt) for what no encoder writes, Error(kTruncated) where the stream ends
  void read(const IntegerGrid& grid, std::span<std::int32_t> values,
            std::span<const std::uint8_t> prior = {});
  /// @throws Error(kCorrupt) unless the stream was read to its last byte
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// About what integers take in a file of the profile, bits: for choices between forms and sizes. Of
/// lanes it is what scales of rows and columns with tables that adapt take.
/// @param values  [rows, cols], magnitudes up to kMaxMagnitude
/// @throws Error(kUsage) as IntegerEncoder::add()
double estimated_bits(CodecProfile profile, const IntegerGrid& grid,
                      std::span<const std::int32_t> values);

/// What the `small` coder expects of every value while it codes a tensor as the next one: the scale
/// b of the Laplace distribution, in units of the step, that has the same probability of zero. The
/// rate of a weight during training is taken under it.
/// @param values  [rows, cols]
/// @param prior   as IntegerEncoder::add() takes it
/// @return [rows, cols], 0.02 to 1000
/// @throws Error(kUsage) for sizes that do not fit, values beyond kMaxMagnitude, dependent grids
std::vector<float> expected_scales(const IntegerGrid& grid, std::span<const std::int32_t> values,
                                   std::span<const std::uint8_t> prior = {});

/// True for the types whose elements may be stored as an exact change since a base: all but complex
/// numbers and those below a byte.
bool has_change(DType dtype) noexcept;
/// The exact change of a tensor since a base (docs/reference/exact-deltas.md). [thread-safe]
/// @param base, now  elements, little-endian, at least one; as many as the shape says
/// @throws Error(kUsage) for a type without changes and sizes that do not fit
std::vector<std::byte> encode_change(DType dtype, std::span<const std::int64_t> shape,
                                     std::span<const std::byte> base,
                                     std::span<const std::byte> now);
/// Turns the base's elements into the tensor's, in place. After an error some may have changed.
/// [thread-safe]
/// @throws Error(kCorrupt, kTruncated, kUnsupported) for what no encoder writes; as encode_change()
void apply_change(DType dtype, std::span<const std::int64_t> shape,
                  std::span<const std::byte> section, std::span<std::byte> elements);

}  // namespace gbcompress
