#pragma once
/// The fixed bytes at both ends of a file, and the header between them
/// (docs/reference/artifact-format.md, "Layout" and "Header").

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/optional_parts.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

inline constexpr std::array<char, 4> kMagic = {'G', 'B', 'Z', '2'};
inline constexpr std::int64_t kDigestBytes = 16;  ///< the first ones of a SHA-256

struct Prelude {
  std::int64_t end = 0;  ///< of the part of the file that it begins
  std::int64_t header_offset = 0;
  std::int64_t header_stored = 0;
  std::int64_t header_raw = 0;
  bool packed = false;  ///< the header is one zstd frame
};

/// Checks what can be said before any digest: magic, version, length, header within its bounds.
/// Bytes may follow the end.
/// @throws Error(kTruncated, kCorrupt, kUnsupported, kLimit)
Prelude read_prelude(std::span<const std::byte> file, const ArtifactLimits& limits,
                     const std::string& label);
/// Magic and sizes of a file with this header and `content` bytes of sections behind it.
/// @param header_raw  0 where the header is not packed
std::vector<std::byte> encode_prelude(std::int64_t header_stored, std::int64_t header_raw,
                                      std::int64_t content);

/// What the header says of one tensor's section.
struct SectionEntry {
  std::int64_t stored = 0, raw = 0;
  Packing packing = Packing::kRaw;
};

/// Which part of a file with layers a header begins (docs/reference/layers.md).
enum class FilePart : std::uint8_t {
  kAll,    ///< a file without layers
  kDraft,  ///< the first part
  kRest,   ///< what follows it: its base is the draft
};

struct Header {
  FilePart part = FilePart::kAll;
  std::string arch, settings;
  std::vector<std::string> bases;  ///< digests of the models that tensors refer to
  std::string digest;              ///< of the file's own tensors, or ""
  CodecProfile profile = CodecProfile::kSmall;
  std::int64_t output_bytes = 0;  ///< of all tensors; found, not stored
  std::vector<ArtifactTensor> tensors;
  std::vector<SectionEntry> sections;  ///< one a tensor
  SectionEntry originals;              ///< artifact/originals.h; of 0 bytes: none
  std::int64_t head_bytes = 0;         ///< with the profile lanes, as the next one
  std::vector<std::int64_t> stripes;   ///< sizes

  /// With the profile lanes: whether a tensor's integers are a section of profile small.
  bool any_small_section() const noexcept;
};

/// The steps of all integers in the order in which they are coded, each with what it is expected to
/// be: that of the last tensor before it with the same last part of the name and as many
/// dimensions; g-nets, and where there is none: the step before it; the first one: kFirstStep.
inline constexpr int kFirstStep = -64;
class StepPredictor {
 public:
  /// @param tensor  null for the blocks of g-nets
  int expected(const ArtifactTensor* tensor) const;
  void saw(const ArtifactTensor* tensor, int step);

 private:
  static std::string key(const ArtifactTensor& tensor);

  int last_ = kFirstStep;
  std::unordered_map<std::string, int> of_key_;
};

/// The number of a tensor of a known layout that is short floats of so many bits.
inline constexpr int kShortFloats = 6, kUsualMantissa = 7;
/// Forms of integer types: values of the key k beside 0.
inline constexpr unsigned kWide = 4, kNibbles = 8;

/// An element that is 0 or 1, of F32 and I64 (those of built-in architectures).
std::vector<std::byte> simple_element(DType dtype, int value);

/// @param bytes  the unpacked CBOR
/// @throws Error(kTruncated, kCorrupt, kUnsupported, kLimit)
Header parse_header(std::span<const std::byte> bytes, const ArtifactLimits& limits,
                    const std::string& label);
std::vector<std::byte> encode_header(const Header& header);

/// 64 lower-case hexadecimal digits.
bool is_base_digest(std::string_view text);
/// Whether the tensor of the same name in a base is this one, or what it is added to.
constexpr bool has_namesake(const ArtifactTensor& tensor) noexcept {
  return optional_parts::kDeltas &&
         (tensor.kind == TensorKind::kBase || tensor.kind == TensorKind::kChange || tensor.on_base);
}
/// Whether the tensor base_form() of a base is this one, or what it is added to or made of.
constexpr bool has_source(const ArtifactTensor& tensor) noexcept {
  return has_namesake(tensor) || (optional_parts::kBlocks && tensor.kind == TensorKind::kBlocks);
}
/// Calls visit(place) for the place in Header::bases of each reference of a tensor.
template <typename Tensor, typename Visit>
void for_bases(Tensor& tensor, const Visit& visit) {
  if (has_source(tensor)) visit(tensor.base);
  if constexpr (!optional_parts::kPieces) return;
  for (auto& piece : tensor.pieces)
    if (piece.source == TensorPiece::Source::kBase) visit(piece.base);
}
/// Whether the tensor is found in a base, at least in part, or made of what is found there.
bool needs_base(const ArtifactTensor& tensor) noexcept;
/// The shape that the change of so many elements of a tensor is coded with: rows as long as the
/// last dimension, or one row.
std::vector<std::int64_t> piece_shape(const std::vector<std::int64_t>& shape,
                                      std::int64_t elements);

/// Types of tensors that blocks are made of, by their numbers in a header.
inline constexpr std::array<DType, 3> kSourceTypes = {DType::kF32, DType::kF16, DType::kBF16};

/// The tensor of its base that a tensor with has_source() is found in or made of: name, type and
/// shape.
ArtifactTensor base_form(const ArtifactTensor& tensor);
/// Weights of a tensor of blocks of a known type. @throws Error(kLimit)
std::int64_t block_elements(const ArtifactTensor& tensor);
/// Whether a tensor has so many elements from its first one on. @throws Error(kLimit)
bool is_within(const BlockSource& source, std::int64_t elements);

/// Bytes of a tensor. @throws Error(kLimit) on overflow, Error(kCorrupt) for half bytes
std::int64_t tensor_bytes(const std::vector<std::int64_t>& shape, DType dtype);
/// Whether exact tensors of that type may be planes: floats of whole bytes.
constexpr bool has_planes(DType dtype) noexcept {
  return (dtype >= DType::kF16 && dtype <= DType::kF64) ||
         (dtype >= DType::kF8E5M2 && dtype <= DType::kF8E8M0);
}
/// Bytes of one element as byte planes see it; 1 where there is none or less.
std::int64_t plane_bytes(const ArtifactTensor& tensor);

}  // namespace gbcompress
