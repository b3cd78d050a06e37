#pragma once
/// The `.gbz` container (artifact-format.md): g-net parameters, plans, entropy-coded tensors,
/// and what is carried along. LibTorch-free; reading one runs no plugin.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/gnet.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class FileDigest;
class LanesReader;
struct LanesBytes;
class Spool;

inline constexpr std::uint32_t kArtifactVersion = 2;

/// How g-net parameters are stored.
enum class Coding : std::uint8_t {
  kF32,    ///< exact
  kF16,    ///< rounded to nearest even
  kI8,     ///< -127..127 times one float32 scale for each weight and bias block of the g-net
  kCoded,  ///< integers times one step for each block, entropy-coded; training chooses them
};
std::string_view coding_name(Coding coding) noexcept;  ///< "fp32", "fp16", "int8", "coded"
/// kCoded is not among them: no rounding of finished parameters makes it.
std::optional<Coding> parse_coding(std::string_view name) noexcept;

/// Bytes that the g-net parameters of a plan take before zstd, scales included.
/// @throws Error(kUsage) for kCoded, whose size depends on the integers; so do the next two
std::int64_t coded_bytes(const GNetPlan& plan, Coding coding);
/// What decoding gives back: `theta` [tiles, parameters] rounded as `coding` would store it.
/// @throws Error(kNonFinite) for NaN, infinity, and what is too large for fp16
std::vector<float> round_trip(const GNetPlan& plan, Coding coding, std::span<const float> theta);

/// Steps are the numbers 2^(k / 16), k from kMinStep to kMaxStep.
inline constexpr int kMinStep = -1024, kMaxStep = 1024;
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
/// The float32 parameters [tiles, parameters]. @throws Error(kUsage) where it does not fit `plan`
std::vector<float> coded_floats(const GNetPlan& plan, const CodedTheta& theta);

/// The prior class of an integer whose stochastic g-net predicts a standard deviation of
/// output_scale * exp(log_deviation): half octaves, 0 below exp(-2.8), 15 above exp(2.4).
std::uint8_t prior_class(float log_deviation) noexcept;

enum class TensorKind : std::uint8_t {
  kGenerated,  ///< by g-nets
  kExact,      ///< exact values
  kTied,       ///< the same tensor as another entry
  kQuantized,  ///< integers times a step size
  kPredicted,  ///< by g-nets, plus integers times a step size
  kConstant,   ///< one value everywhere
  kBase,       ///< that of the same name in the file's base
  kChange,     ///< the same, and how each element changed since, exactly
  kPlain [[deprecated("use kExact")]] = kExact,
  kCoded [[deprecated("use kQuantized")]] = kQuantized,
  kResidual [[deprecated("use kPredicted")]] = kPredicted,
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
  kPlanes,        ///< floats: exponents first, each byte plane as it is or as zstd
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

class ArtifactReader;

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
  /// @throws Error(kUsage, kShapeMismatch) as above, for steps out of range and for integers beyond
  ///         kMaxMagnitude; so do the next two
  void add_coded(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                 CodedValues values);
  /// A coded tensor whose integers are encoded already, by encode_section(); the file then has the
  /// profile lanes, and no more than one tensor's integers need to be in memory. Those of profile
  /// small stay a section of their own; some other tensor has to have integers in lanes.
  /// @param form     of the values, without their integers
  /// @param profile  encode_section()'s
  void add_coded_section(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                         const CodedValues& form, std::vector<std::byte> section,
                         CodecProfile profile = CodecProfile::kLanes);
  /// The g-nets' weights plus `values`: one product, one sum, each rounded to float32.
  void add_residual(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                    const GNetPlan& plan, CodedTheta theta, CodedValues values);
  void add_generated_coded(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                           const GNetPlan& plan, CodedTheta theta);
  /// @param element  the bytes of one element; types below a byte are refused
  void add_constant(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                    std::span<const std::byte> element);
  /// From here on the file is a delta: what changed since a base model (decode.h).
  /// @param digest  BaseModel::digest()
  void set_base(std::string digest);
  /// The digest of the tensors themselves, by which a chain of deltas finds this file.
  /// @param digest  BaseModel::digest()
  void set_digest(std::string digest);
  /// A tensor that the base has, of that type and shape and bit for bit.
  void add_base(const std::string& name, DType dtype, std::vector<std::int64_t> shape);
  /// A tensor of at least one element that the base has, of that type and shape, and its exact
  /// change.
  /// @param section  encode_change() of base and tensor
  /// @throws Error(kUsage) for a tensor that has no changes, as has_change() tells
  void add_change(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                  std::vector<std::byte> section);
  /// Unless it is called: small up to 4 million integers and kMaxSmallColumns, lanes above. Files
  /// of profile fast are for tests; readers know it for good.
  void set_profile(CodecProfile profile);
  /// Instead of those given to the constructor; integers are not coded again. @throws Error(kUsage)
  /// for text that is not UTF-8
  void set_settings(std::string settings);
  /// With the small profile: the integers of everything added so far are this stream, from where
  /// they were coded before in the same order. Forgotten where something is added or changed.
  void reuse_stream(std::vector<std::byte> stream);
  /// Of all integers; empty without any, and with other profiles. @throws as encode()
  const std::vector<std::byte>& stream() const;

  /// Gives a coded tensor other integers, as add_coded() and add_coded_section() do.
  /// @throws Error(kNotFound) where no coded tensor has that name; as those
  void update_coded(const std::string& name, CodedValues values);
  void update_coded_section(const std::string& name, const CodedValues& form,
                            std::vector<std::byte> section,
                            CodecProfile profile = CodecProfile::kLanes);
  /// Of the profile lanes, 0: one for each processor. They change no bit.
  void set_threads(int threads) noexcept { threads_ = threads; }
  /// From here on sections wait in an unnamed file in `folder` instead of in memory.
  /// @throws Error(kIo)
  void spool_in(const std::filesystem::path& folder);

  /// Bytes that the file has as things stand: what was coded to find it is what encode() and
  /// write() write.
  std::int64_t size() const;
  /// The whole file in memory. Same content, same bytes.
  std::vector<std::byte> encode() const;
  /// Atomically: a temporary file beside `path`, fsync, rename.
  /// @param look  sees the file before it has its name, where no other process can have replaced it;
  ///              what it throws leaves `path` as it was
  /// @return bytes written
  /// @throws Error(kExists) unless `overwrite`, Error(kIo)
  std::int64_t write(const std::filesystem::path& path, bool overwrite,
                     const std::function<void(const ArtifactReader&)>& look = {}) const;

 private:
  struct Content {
    std::vector<std::byte> bytes;  ///< as stored; empty for tied, constant and coded tensors
    std::int64_t spooled = -1;     ///< where the bytes wait in the spool, if they do
    bool encoded = false;          ///< the bytes are the integers' section
    Packing packing = Packing::kRaw;
    CodedTheta theta;
    CodedValues values;
  };
  ArtifactTensor generated(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
                           const GNetPlan& plan, Coding coding) const;
  void add(ArtifactTensor tensor, Content content);
  CodecProfile profile() const;
  struct Layout;
  const Layout& layout() const;
  /// Calls visit() with a tensor's integers, whichever way they were added.
  void visit_integers(std::size_t tensor,
                      const std::function<void(std::span<const std::int32_t>)>& visit) const;
  Layout make_layout() const;
  ArtifactTensor& coded_tensor(const std::string& name);
  /// Calls sink(piece) for every byte of the file but the digest, in order.
  void emit(const Layout& layout,
            const std::function<void(std::span<const std::byte>)>& sink) const;

  std::string arch_, settings_, base_, digest_;
  std::optional<CodecProfile> profile_;
  int threads_ = 0;
  std::vector<ArtifactTensor> tensors_;
  std::vector<Content> contents_;  ///< one a tensor
  std::shared_ptr<Spool> spool_;
  mutable std::shared_ptr<const Layout> layout_;  ///< of everything added so far, or null
  std::optional<std::vector<std::byte>> stream_;  ///< of its integers, where it is known
  std::unordered_map<std::string, std::size_t> index_;
};

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
                             DigestCheck check = DigestCheck::kAtOnce);
  static ArtifactReader from_bytes(std::vector<std::byte> bytes, std::string label,
                                   const ArtifactLimits& limits = {},
                                   DigestCheck check = DigestCheck::kAtOnce);
  /// The same for bytes that stay where they are as long as the reader or a copy of it is used.
  static ArtifactReader view(std::span<const std::byte> bytes, const std::string& label,
                             const ArtifactLimits& limits = {},
                             DigestCheck check = DigestCheck::kAtOnce);
  /// True when the file begins as artifacts of any version do: `GBZ` and a digit.
  static bool is_artifact(const std::filesystem::path& path);

  const std::string& arch() const noexcept { return arch_; }
  const std::string& settings() const noexcept { return settings_; }
  /// BaseModel::digest() of the model that a delta needs to be expanded; "": none.
  const std::string& base() const noexcept { return base_; }
  /// BaseModel::digest() of the file's own tensors, where it was stored; else "".
  const std::string& digest() const noexcept { return own_digest_; }
  const std::vector<ArtifactTensor>& tensors() const noexcept { return tensors_; }
  /// As it was given to open(); "" for bytes in memory.
  const std::filesystem::path& path() const noexcept { return path_; }
  std::int64_t file_bytes() const noexcept;
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
  /// Decoded g-net parameters [tiles, parameters] of a generated or residual tensor, all finite.
  /// @throws Error(kUsage) for another kind of tensor; Error(kCorrupt, kTruncated)
  std::vector<float> theta(std::size_t tensor) const;
  /// Bytes of a plain tensor. @throws as theta()
  std::vector<std::byte> plain(std::size_t tensor) const;
  /// Of a coded or residual tensor. With the small profile everything before it is decoded first,
  /// and kept, so that each integer is decoded once. @throws as theta()
  CodedValues coded(std::size_t tensor) const;
  /// The file's integers as stripes; null with other profiles (artifact/lanes_reader.h).
  const LanesReader* lanes() const noexcept;
  /// The parts of the file that the tensor is decoded from, in no order, beside the header.
  std::vector<std::span<const std::byte>> parts(std::size_t tensor) const;
  /// The change of a tensor since the base, for apply_change(). @throws as theta()
  std::span<const std::byte> change(std::size_t tensor) const;
  /// The bytes of one element of a constant tensor. @throws as theta()
  std::vector<std::byte> constant(std::size_t tensor) const;
  /// Bits of the file that each tensor takes beside the header. Shares of a common stream
  /// follow from the coder's probabilities: everything is coded again. @throws as verify()
  std::vector<double> tensor_bits() const;

 private:
  ArtifactReader() = default;
  static ArtifactReader parse(std::shared_ptr<const void> file, std::span<const std::byte> bytes,
                              const std::string& label, const ArtifactLimits& limits,
                              DigestCheck check);
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

  std::string label_, arch_, settings_, base_, own_digest_;
  std::shared_ptr<FileDigest> digest_;
  std::filesystem::path path_;
  std::shared_ptr<const void> file_;  ///< whoever holds bytes_
  std::span<const std::byte> bytes_;
  std::vector<ArtifactTensor> tensors_;
  std::vector<SectionRef> sections_;
  std::shared_ptr<Integers> integers_;
  CodecProfile profile_ = CodecProfile::kSmall;
  std::int64_t header_bytes_ = 0, output_bytes_ = 0;
};

}  // namespace gbcompress
