#pragma once
/// What a `.gbz` file says of each tensor, and the bounds on what it may declare. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/coded_values.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

inline constexpr std::uint32_t kArtifactVersion = 2;

enum class TensorKind : std::uint8_t {
  kGenerated,  ///< by g-nets
  kExact,      ///< exact values
  kTied,       ///< the same tensor as another entry
  kQuantized,  ///< integers times a step size
  kPredicted,  ///< by g-nets, plus integers times a step size
  kConstant,   ///< one value everywhere
  kBase,       ///< that of the same name in the file's base
  kChange,     ///< the same, and how each element changed since, exactly
};
std::string_view kind_name(TensorKind kind) noexcept;  ///< "generated", "exact", ...
/// True for kGenerated and kPredicted: there is a plan.
constexpr bool has_plan(TensorKind kind) noexcept {
  return kind == TensorKind::kGenerated || kind == TensorKind::kPredicted;
}

struct ArtifactTensor {
  std::string name;  ///< UTF-8, 1 to 512 bytes, no control characters; never a path
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< up to 8 dimensions, 0 allowed for plain tensors
  TensorKind kind = TensorKind::kExact;
  GNetPlan plan;                   ///< kGenerated, kPredicted
  Coding coding = Coding::kI8;     ///< kGenerated; Coding::kCoded for kPredicted
  std::vector<int> theta_steps;    ///< with Coding::kCoded: one a block
  IntegerGrid grid;                ///< kQuantized, kPredicted
  int step = 0;                    ///< kQuantized, kPredicted: CodedValues::step
  int mantissa_bits = 0;           ///< kQuantized: CodedValues::mantissa_bits
  bool row_steps = false;          ///< kQuantized, kPredicted: every row has an offset of the step
  bool nibbles = false;            ///< kQuantized: CodedValues::nibbles
  int axis = -1;                   ///< kQuantized: CodedValues::axis
  bool on_base = false;            ///< kQuantized: CodedValues::on_base
  LevelForm levels;                ///< kQuantized: CodedValues::levels
  std::vector<std::byte> element;  ///< kConstant: the value of every element
  std::string tied_to;             ///< kTied: name of a tensor that is not tied itself
  /// Of its integers: the file's, or small beside others in lanes.
  CodecProfile profile = CodecProfile::kSmall;
  /// Its section on disk; 0 where its integers are part of one stream with others'.
  std::int64_t stored_bytes = 0;
};

/// How the bytes of a section are packed.
enum class Packing : std::uint8_t {
  kRaw,
  kZstd,
  kShuffledZstd,  ///< byte planes (all first bytes of the elements, all second ones, ...), then
                  ///< zstd
  kPlanes,        ///< floats: exponents apart from mantissas, in stripes
};

/// Bounds on what a file may declare, checked before anything is allocated.
struct ArtifactLimits {
  std::int64_t file_bytes = std::int64_t{1} << 36;
  std::int64_t header_bytes = 16 << 20;
  /// Of all tensors together, expanded; and, separately, of all g-net parameters as float32.
  std::int64_t output_bytes = std::int64_t{1} << 40;
  std::int64_t tensors = 1'000'000;
};
/// With CodecProfile::kSmall: integers of one file, which are decoded from the first to the last,
/// and columns of a grid (rows, where it has one column), whose counts take memory.
inline constexpr std::int64_t kMaxSmallIntegers = 64 << 20;
inline constexpr std::int64_t kMaxSmallColumns = 1 << 20;

}  // namespace gbcompress
