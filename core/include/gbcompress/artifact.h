#pragma once
/// The `.gbz` container (docs/reference/artifact-format.md): g-net parameters, specifications,
/// entropy-coded tensors, and what is carried along. Reading one runs no plugin. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/artifact_tensor.h"
#include "gbcompress/artifact_writer.h"
#include "gbcompress/coded_values.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class DraftValues;
class FileDigest;
struct KnownContent;
class PlanesReader;
class LanesReader;
struct LanesBytes;

/// When the digest of a file is checked.
enum class DigestCheck : std::uint8_t {
  kAtOnce,  ///< before the header is read
  /// While stripes and sections are decoded, on their threads, without a pass of its own.
  /// decode_to_file() and verify() return, and errors of decoding are thrown, once all of it is
  /// checked; after other calls check_digest() is due before a result is used.
  kWhileDecoding,
  /// Never: identity() is "", and only the header has to be there yet; parts() says what a tensor
  /// needs.
  kNever,
};

class ArtifactReader {
 public:
  /// Checks the digest over the whole file, then reads the header; sections are unpacked on
  /// first use. Nothing of a damaged file is ever accepted. The file stays mapped, not copied,
  /// and must not change meanwhile.
  /// @param check  a file that expands to more than 64 times its size is always checked at once
  /// @throws Error(kNotFound, kIo, kTruncated, kCorrupt, kUnsupported, kLimit)
  static ArtifactReader open(const std::filesystem::path& path, const ArtifactLimits& limits = {},
                             DigestCheck check = DigestCheck::kAtOnce, Layer layer = Layer::kExact);
  static ArtifactReader from_bytes(std::vector<std::byte> bytes, std::string label,
                                   const ArtifactLimits& limits = {},
                                   DigestCheck check = DigestCheck::kAtOnce,
                                   Layer layer = Layer::kExact);
  /// The same for bytes that stay where they are as long as the reader or a copy of it is used.
  static ArtifactReader view(std::span<const std::byte> bytes, const std::string& label,
                             const ArtifactLimits& limits = {},
                             DigestCheck check = DigestCheck::kAtOnce, Layer layer = Layer::kExact);
  /// As sniff() says: the file begins as artifacts of any version do, `GBZ` and a digit, or is
  /// named .gbz and no other model file. @throws as sniff()
  static bool is_artifact(const std::filesystem::path& path);

  const std::string& arch() const noexcept { return arch_; }
  const std::string& settings() const noexcept { return settings_; }
  /// BaseModel::digest() of each model that a delta needs to be expanded; empty: it is none.
  const std::vector<std::string>& bases() const noexcept { return bases_; }
  bool is_delta() const noexcept { return !bases_.empty(); }
  /// BaseModel::digest() of the file's own tensors, where it was stored; else "".
  const std::string& digest() const noexcept { return own_digest_; }
  const std::vector<ArtifactTensor>& tensors() const noexcept { return tensors_; }
  /// As it was given to open(); "" for bytes in memory.
  const std::filesystem::path& path() const noexcept { return path_; }
  /// Of the parts that are read.
  std::int64_t file_bytes() const noexcept;
  /// Of a file with layers whose exact values are read: its draft. Else null.
  const ArtifactReader* draft() const noexcept;
  /// Of the same: what decodes the draft's values (artifact/draft_values.h). Else null.
  const DraftValues* draft_values() const noexcept;
  /// Whether the values are those of the draft of a file with layers, whose exact part is missing
  /// or is not requested.
  bool is_draft() const noexcept { return is_draft_; }
  std::int64_t header_bytes() const noexcept { return header_bytes_; }  ///< as stored
  std::int64_t output_bytes() const noexcept { return output_bytes_; }
  /// SHA-256 of the file's content in hexadecimal, its identity. @throws as check_digest()
  const std::string& identity() const;
  /// With DigestCheck::kWhileDecoding: takes what no decoding took yet into the digest, and
  /// compares it. [thread-safe] @throws Error(kCorrupt) for a damaged file
  void check_digest() const;

  /// Of the integers, if there are any; with lanes, some tensors may have the profile small.
  CodecProfile profile() const noexcept { return profile_; }

  /// Checks the digest again and decodes every section once. @throws Error(kCorrupt, kTruncated)
  void verify() const;
  /// Decoded g-net parameters [tiles, parameters] of a generated or predicted tensor, all finite.
  /// @throws Error(kUsage) for another kind of tensor; Error(kCorrupt, kTruncated)
  std::vector<float> theta(std::size_t tensor) const;
  /// Bytes of a plain tensor. @throws as theta()
  std::vector<std::byte> plain(std::size_t tensor) const;
  /// The reader of the stripes of an exact tensor (artifact/sections/planes.h); null for tensors
  /// that are not stored as planes. @throws as theta()
  std::unique_ptr<const PlanesReader> planes(std::size_t tensor) const;
  /// The bytes of a plain tensor where the file has them unpacked; else nothing. @throws as theta()
  std::span<const std::byte> as_stored(std::size_t tensor) const;
  /// Reports decoded bytes of the file to the digest of DigestCheck::kWhileDecoding. [thread-safe]
  void keep_up(std::size_t bytes) const noexcept;
  /// Of a quantized or predicted tensor. With the small profile everything before it is decoded
  /// first, and kept, so that each integer is decoded once. @throws as theta()
  CodedValues coded(std::size_t tensor) const;
  /// The file's integers as stripes; null with other profiles (artifact/lanes_reader.h).
  const LanesReader* lanes() const noexcept;
  /// What the files that it was made of have beside their tensors (originals_of()); empty: nothing
  /// was kept. @throws Error(kCorrupt)
  std::vector<std::byte> originals() const;
  /// The parts of the file that the tensor is decoded from, in no order, beside the header.
  std::vector<std::span<const std::byte>> parts(std::size_t tensor) const;
  /// The change of a tensor since the base, for apply_change(), or what makes blocks of it.
  /// @throws as theta()
  std::span<const std::byte> change(std::size_t tensor) const;
  /// Makes a piece of a tensor of pieces.
  /// @param elements  of the piece's source, if it has one; of the piece afterwards
  /// @throws as theta()
  void make_piece(std::size_t tensor, std::size_t piece, std::span<std::byte> elements) const;
  /// The bytes of one element of a constant tensor. @throws as theta()
  std::vector<std::byte> constant(std::size_t tensor) const;
  /// Bits of the file that each tensor takes beside the header. Shares of a common stream
  /// follow from the coder's probabilities: everything is coded again. @throws as verify()
  std::vector<double> tensor_bits() const;

 private:
  ArtifactReader() = default;
  static ArtifactReader parse(std::shared_ptr<const void> file, std::span<const std::byte> bytes,
                              const std::string& label, const ArtifactLimits& limits,
                              DigestCheck check, Layer layer, const KnownContent* known = nullptr);
  /// A file whose content is known since it was written.
  static ArtifactReader open_written(const std::filesystem::path& path, const KnownContent& known);
  friend class ArtifactWriter;
  static ArtifactReader parse_layers(const std::shared_ptr<const void>& owner,
                                     std::span<const std::byte> file, const std::string& label,
                                     const ArtifactLimits& limits, std::size_t draft_bytes,
                                     const std::shared_ptr<FileDigest>& digest);
  static ArtifactReader parse_content(std::shared_ptr<const void> file,
                                      std::span<const std::byte> bytes, std::string label,
                                      const ArtifactLimits& limits,
                                      const std::shared_ptr<FileDigest>& digest);
  /// @param last  the last tensor with integers
  void open_integers(LanesBytes lanes, std::size_t last);
  struct SectionRef {
    std::int64_t offset = 0, stored = 0, raw = 0;
    Packing packing = Packing::kRaw;
  };
  class Integers;  ///< decodes them; shared by copies of the reader
  const ArtifactTensor& entry(std::size_t tensor, bool fits, const char* kind) const;
  std::span<const std::byte> section(std::size_t tensor) const;
  std::vector<std::byte> unpacked(std::size_t tensor) const;
  std::span<const std::byte> piece_section(std::size_t tensor, std::size_t piece) const;
  std::vector<std::byte> unpacked_piece(std::size_t tensor, std::size_t piece) const;

  std::span<const std::byte> whole() const noexcept;
  std::vector<double> own_bits() const;

  std::string label_, arch_, settings_, own_digest_;
  std::vector<std::string> bases_;
  std::shared_ptr<FileDigest> digest_;
  std::filesystem::path path_;
  std::shared_ptr<const void> file_;  ///< whoever holds bytes_
  std::span<const std::byte> bytes_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<SectionRef> sections_;
  SectionRef originals_;
  std::shared_ptr<Integers> integers_;
  CodecProfile profile_ = CodecProfile::kSmall;
  std::int64_t header_bytes_ = 0, output_bytes_ = 0;
  bool is_draft_ = false, is_rest_ = false;
  std::shared_ptr<const DraftValues> draft_;
};

}  // namespace gbcompress
