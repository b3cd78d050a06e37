#pragma once
/// The `.gbz` container (docs/artifact-format.md): g-net parameters, plans, and the tensors that
/// are carried along. LibTorch-free; reading one runs no plugin.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
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
  GNetPlan plan;           ///< kGenerated
  Coding coding = Coding::kI8;
  std::string tied_to;     ///< kTied: name of a tensor that is not tied itself
  std::int64_t stored_bytes = 0;  ///< its section on disk
};

/// Bounds on what a file may declare, checked before anything is allocated.
struct ArtifactLimits {
  std::int64_t header_bytes = 16 << 20;
  std::int64_t output_bytes = std::int64_t{1} << 40;  ///< of all tensors together, expanded
  std::int64_t tensors = 1'000'000;
};

class ArtifactWriter {
 public:
  /// @param arch      what `--arch` was, or ""
  /// @param settings  resolved settings as JSON text, or ""
  ArtifactWriter(std::string arch, std::string settings);

  /// @param theta  [tiles, gnet_parameters(plan)]
  void add_generated(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                     const GNetPlan& plan, Coding coding, std::span<const float> theta);
  void add_plain(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 std::span<const std::byte> bytes);
  void add_tied(const std::string& name, const std::string& tied_to);

  /// The whole file in memory. Same content, same bytes.
  std::vector<std::byte> encode() const;
  /// Atomically: a temporary file beside `path`, fsync, rename.
  /// @return bytes written
  /// @throws Error(kExists) unless `overwrite`, Error(kIo)
  std::int64_t write(const std::filesystem::path& path, bool overwrite) const;

 private:
  struct Section;
  std::string arch_, settings_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<std::vector<std::byte>> sections_;  ///< one a tensor, empty for tied ones
};

class ArtifactReader {
 public:
  /// Reads header and digests; sections are verified when they are read.
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

  /// Checks the digest over the whole file. @throws Error(kCorrupt)
  void verify() const;
  /// Decoded g-net parameters [tiles, parameters] of a generated tensor.
  std::vector<float> theta(std::size_t tensor) const;
  /// Bytes of a plain tensor.
  std::vector<std::byte> plain(std::size_t tensor) const;

 private:
  ArtifactReader() = default;
  struct SectionRef {
    std::int64_t offset = 0, stored = 0, raw = 0;
    std::uint64_t xxh3 = 0;
    bool packed = false;
  };
  std::vector<std::byte> section(std::size_t tensor) const;

  std::string label_, arch_, settings_, identity_;
  std::vector<std::byte> bytes_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<SectionRef> sections_;
  std::int64_t header_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace gbcompress
