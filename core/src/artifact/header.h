#pragma once
/// The fixed bytes at both ends of a file, and the header between them
/// (docs/artifact-format.md, "Layout" and "Header").

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

inline constexpr std::array<char, 4> kMagic = {'G', 'B', 'Z', '1'};
inline constexpr std::int64_t kPreludeBytes = 24;  ///< magic, version, file, stored, raw bytes
inline constexpr std::int64_t kDigestBytes = 32;

struct Prelude {
  std::int64_t header_stored = 0;
  std::int64_t header_raw = 0;  ///< more than `header_stored`: packed with zstd
};

/// Checks what can be said before any digest: magic, version, length, header within its bounds.
/// @throws Error(kTruncated, kCorrupt, kUnsupported, kLimit)
Prelude read_prelude(std::span<const std::byte> file, const ArtifactLimits& limits,
                     const std::string& label);

/// What the header says of one tensor's section.
struct SectionEntry {
  std::int64_t stored = 0, raw = 0;
  std::uint64_t xxh3 = 0;
  Packing packing = Packing::kRaw;
};

struct Header {
  std::string arch, settings;
  std::int64_t output_bytes = 0;
  std::vector<ArtifactTensor> tensors;
  std::vector<SectionEntry> sections;  ///< one a tensor
};

/// @param bytes  the unpacked CBOR
/// @throws Error(kTruncated, kCorrupt, kUnsupported, kLimit)
Header parse_header(std::span<const std::byte> bytes, const ArtifactLimits& limits,
                    const std::string& label);
std::vector<std::byte> encode_header(const Header& header);

/// Bytes of a tensor. @throws Error(kLimit) on overflow, Error(kCorrupt) for half bytes
std::int64_t tensor_bytes(const std::vector<std::int64_t>& shape, DType dtype);
/// Bytes of one element as byte planes see it; 1 where there is none or less.
std::int64_t plane_bytes(const ArtifactTensor& tensor);

}  // namespace gbcompress
