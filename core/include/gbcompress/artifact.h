#pragma once
/// The `.gbz` container (docs/artifact-format.md): g-net parameters, plans, and the tensors that
/// are carried along. LibTorch-free; reading one runs no plugin.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gbcompress/dtype.h"
#include "gbcompress/gnet_plan.h"

namespace gbcompress {

inline constexpr std::uint32_t kArtifactVersion = 1;

/// How g-net parameters are stored.
enum class Coding : std::uint8_t {
  kF32,  ///< exact
  kF16,  ///< rounded to nearest even
  kI8,   ///< -127..127 times one float32 scale for each weight and bias block of the g-net
};
std::string_view coding_name(Coding coding) noexcept;  ///< "fp32", "fp16", "int8"
std::optional<Coding> parse_coding(std::string_view name) noexcept;

/// Bytes that the g-net parameters of a plan take before zstd, scales included.
std::int64_t coded_bytes(const GNetPlan& plan, Coding coding);
/// What decoding gives back: `theta` [tiles, parameters] rounded as `coding` would store it.
/// @throws Error(kNonFinite) for NaN, infinity, and what is too large for fp16
std::vector<float> round_trip(const GNetPlan& plan, Coding coding, std::span<const float> theta);

enum class TensorKind : std::uint8_t {
  kGenerated,  ///< by g-nets
  kPlain,      ///< carried along, exact
  kTied,       ///< the same tensor as another entry
};

struct ArtifactTensor {
  std::string name;  ///< UTF-8, 1 to 512 bytes, no control characters; never a path
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;  ///< up to 8 dimensions, 0 allowed for plain tensors
  TensorKind kind = TensorKind::kPlain;
  GNetPlan plan;  ///< kGenerated
  Coding coding = Coding::kI8;
  std::string tied_to;            ///< kTied: name of a tensor that is not tied itself
  std::int64_t stored_bytes = 0;  ///< its section on disk
};

/// How the bytes of a section are packed.
enum class Packing : std::uint8_t {
  kRaw,
  kZstd,
  kShuffledZstd,  ///< byte planes (all first bytes of the elements, all second ones, ...), then
                  ///< zstd
};

/// Bounds on what a file may declare, checked before anything is allocated.
struct ArtifactLimits {
  std::int64_t file_bytes = std::int64_t{1} << 36;
  std::int64_t header_bytes = 16 << 20;
  /// Of all tensors together, expanded; and, separately, of all g-net parameters as float32.
  std::int64_t output_bytes = std::int64_t{1} << 40;
  std::int64_t tensors = 1'000'000;
};

class ArtifactWriter {
 public:
  /// @param arch      what `--arch` was, or ""
  /// @param settings  resolved settings as JSON text, or ""
  /// @throws Error(kUsage) for text that is not UTF-8
  ArtifactWriter(std::string arch, std::string settings);

  /// @param theta  [tiles, gnet_parameters(plan)]
  /// @throws Error(kUsage) for a name that is taken or not allowed, a dtype that g-nets cannot
  /// stand
  ///         in for, a plan without type_id; Error(kNonFinite) naming the tensor; and as validate()
  void add_generated(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                     const GNetPlan& plan, Coding coding, std::span<const float> theta);
  /// @throws Error(kUsage) as above; Error(kShapeMismatch) where bytes and shape do not fit
  void add_plain(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes);
  /// @param tied_to  a tensor added before that is not tied itself; else Error(kNotFound, kUsage)
  void add_tied(const std::string& name, const std::string& tied_to);

  /// The whole file in memory. Same content, same bytes.
  std::vector<std::byte> encode() const;
  /// Atomically: a temporary file beside `path`, fsync, rename.
  /// @return bytes written
  /// @throws Error(kExists) unless `overwrite`, Error(kIo)
  std::int64_t write(const std::filesystem::path& path, bool overwrite) const;

 private:
  struct Section {
    std::vector<std::byte> bytes;  ///< as stored; empty for tied tensors
    Packing packing = Packing::kRaw;
  };
  void add(ArtifactTensor tensor, Section section);

  std::string arch_, settings_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<Section> sections_;  ///< one a tensor
  std::unordered_map<std::string, std::size_t> index_;
};

class ArtifactReader {
 public:
  /// Checks the digest over the whole file, then reads the header; sections are unpacked when they
  /// are asked for. Nothing of a damaged file is ever accepted.
  /// @throws Error(kNotFound, kIo, kTruncated, kCorrupt, kUnsupported, kLimit)
  static ArtifactReader open(const std::filesystem::path& path, const ArtifactLimits& limits = {});
  static ArtifactReader from_bytes(std::vector<std::byte> bytes, std::string label,
                                   const ArtifactLimits& limits = {});
  /// True when the file begins with the magic `GBZ1`.
  static bool is_artifact(const std::filesystem::path& path);

  const std::string& arch() const noexcept { return arch_; }
  const std::string& settings() const noexcept { return settings_; }
  const std::vector<ArtifactTensor>& tensors() const noexcept { return tensors_; }
  std::int64_t file_bytes() const noexcept;
  std::int64_t header_bytes() const noexcept { return header_bytes_; }  ///< as stored
  std::int64_t output_bytes() const noexcept { return output_bytes_; }
  /// SHA-256 of the file's content in hexadecimal, its identity.
  const std::string& identity() const noexcept { return identity_; }

  /// Checks the digest again and unpacks every section once. @throws Error(kCorrupt)
  void verify() const;
  /// Decoded g-net parameters [tiles, parameters] of a generated tensor, all finite.
  /// @throws Error(kUsage) for another kind of tensor; Error(kCorrupt)
  std::vector<float> theta(std::size_t tensor) const;
  /// Bytes of a plain tensor. @throws as theta()
  std::vector<std::byte> plain(std::size_t tensor) const;

 private:
  ArtifactReader() = default;
  struct SectionRef {
    std::int64_t offset = 0, stored = 0, raw = 0;
    std::uint64_t xxh3 = 0;
    Packing packing = Packing::kRaw;
  };
  std::vector<std::byte> section(std::size_t tensor, TensorKind kind) const;

  std::string label_, arch_, settings_, identity_;
  std::vector<std::byte> bytes_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<SectionRef> sections_;
  std::int64_t header_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace gbcompress
