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
  kBase,       ///< that of the same name in a base of the file
  kChange,     ///< the same, and how each element changed since, exactly
  kPieces,     ///< ranges of elements one after another, each from elsewhere or stored by itself
  kBlocks,     ///< blocks of a quantized type, made of a tensor of a base of the file
};
std::string_view kind_name(TensorKind kind) noexcept;  ///< "generated", "exact", ...
/// True for kGenerated and kPredicted: there is a specification.
constexpr bool has_spec([[maybe_unused]] TensorKind kind) noexcept {
#ifdef GBZ_WITHOUT_GNETS
  return false;
#else
  return kind == TensorKind::kGenerated || kind == TensorKind::kPredicted;
#endif
}

/// Which values of a file with layers (docs/reference/layers.md) are meant. Readers make no
/// difference of other files.
enum class Layer : std::uint8_t {
  kExact,  ///< the exact ones; of a file that ends behind its draft, the draft's
  kDraft,  ///< those of its first part, the draft
};

/// How the bytes of a section are packed.
enum class Packing : std::uint8_t {
  kRaw,
  kZstd,
  kShuffledZstd,  ///< byte planes (all first bytes of the elements, all second ones, ...), then
                  ///< zstd
  kPlanes,        ///< floats: exponents apart from mantissas, in stripes
  kBlocks,        ///< blocks of a quantized type of ggml, field by field
};

/// Models that a file may be the change since.
inline constexpr std::size_t kMostBases = 16;
/// Of one tensor.
inline constexpr std::size_t kMostPieces = 65536;

/// Elements of a tensor of kind kPieces that lie one after another.
struct TensorPiece {
  enum class Source : std::uint8_t {
    kNone,   ///< the section has the elements
    kBase,   ///< elements of a tensor of a base
    kItself  ///< earlier elements of the tensor
  };
  std::int64_t elements = 0;
  Source source = Source::kNone;
  std::size_t base = 0;             ///< kBase: place in ArtifactReader::bases()
  std::string name = {};            ///< kBase: of the base's tensor; "": that of this one
  std::int64_t first = 0;           ///< with a source: its first element there
  bool changed = false;             ///< with a source: the section has the exact change since
  Packing packing = Packing::kRaw;  ///< kNone
  std::int64_t stored = 0;          ///< bytes of its section; 0: none
  std::int64_t offset = 0;          ///< of its section in that of the tensor
};

/// The part of a tensor of a base that blocks are made of.
struct BlockSource {
  std::string name;                 ///< of the base's tensor
  DType dtype = DType::kF32;        ///< F32, F16 or BF16
  std::vector<std::int64_t> shape;  ///< of the base's tensor
  std::int64_t first = 0;           ///< its first element that is one of the blocks
};

struct ArtifactTensor {
  std::string name;  ///< UTF-8, 1 to 512 bytes, no control characters; never a path
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< up to 8 dimensions, 0 allowed for plain tensors
  TensorKind kind = TensorKind::kExact;
  GNetSpec spec;                   ///< kGenerated, kPredicted
  Coding coding = Coding::kI8;     ///< kGenerated; Coding::kCoded for kPredicted
  std::vector<int> theta_steps;    ///< with Coding::kCoded: one a block
  IntegerGrid grid;                ///< kQuantized, kPredicted
  int step = 0;                    ///< kQuantized, kPredicted: CodedValues::step
  int mantissa_bits = 0;           ///< kQuantized: CodedValues::mantissa_bits
  bool row_steps = false;          ///< kQuantized, kPredicted: every row has an offset of the step
  bool nibbles = false;            ///< kQuantized: CodedValues::nibbles
  int axis = -1;                   ///< kQuantized: CodedValues::axis
  bool on_base = false;            ///< kQuantized: CodedValues::on_base
  /// kBase, kChange, kBlocks, and where on_base is set: place of the base in
  /// ArtifactReader::bases()
  std::size_t base = 0;
  std::vector<TensorPiece> pieces;  ///< kPieces: all elements, in their order
  LevelForm levels;                ///< kQuantized: CodedValues::levels
  std::vector<std::byte> element;  ///< kConstant: the value of every element
  /// kBlocks, kExact of U8 where it is packed by fields: ggml's number of the quantized type whose
  /// blocks the bytes are; else 0.
  std::uint32_t block_type = 0;
  BlockSource source;              ///< kBlocks
  std::string tied_to;             ///< kTied: name of a tensor that is not tied itself
  /// Of its integers: the file's, or small beside others in lanes.
  CodecProfile profile = CodecProfile::kSmall;
  /// Its section on disk; 0 where its integers are part of one stream with others'.
  std::int64_t stored_bytes = 0;
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
