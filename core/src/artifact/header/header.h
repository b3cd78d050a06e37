#pragma once
/// The fixed bytes at both ends of a file, and the header between them
/// (docs/reference/artifact-format.md, "Layout" and "Header").

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

inline constexpr std::array<char, 4> kMagic = {'G', 'B', 'Z', '2'};
inline constexpr std::int64_t kDigestBytes = 16;  ///< the first ones of a SHA-256

struct Prelude {
  std::int64_t header_offset = 0;
  std::int64_t header_stored = 0;
  std::int64_t header_raw = 0;
  bool packed = false;  ///< the header is one zstd frame
};

/// Checks what can be said before any digest: magic, version, length, header within its bounds.
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

struct Header {
  std::string arch, settings;
  std::string base;    ///< digest of the model that tensors refer to, or ""
  std::string digest;  ///< of the file's own tensors, or ""
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
/// Whether the tensor is found in the base, or added to what is found there.
constexpr bool needs_base(const ArtifactTensor& tensor) noexcept {
  return tensor.kind == TensorKind::kBase || tensor.kind == TensorKind::kChange || tensor.on_base;
}

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
