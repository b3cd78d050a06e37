#pragma once
/// Weights without data or LibTorch: from those of a model to a `.gbz` (weights.md), and two
/// sets of tensors side by side.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/statistics.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// From the weights of a model alone, without any data, to a `.gbz` file (docs/guides/weights.md).
// LibTorch-free; one tensor at a time is in memory.

class ArtifactReader;
class BaseModel;

/// What the squared errors of tensors count.
enum class ErrorMeasure : std::uint8_t {
  kRelative,  ///< of every tensor, relative to its squares
  kTotal,     ///< of all tensors together, one step for all: for comparisons at equal squared error
};
std::string_view measure_name(ErrorMeasure measure) noexcept;  ///< "relative", "total"
std::optional<ErrorMeasure> parse_measure(std::string_view name) noexcept;

struct WeightsOptions {
  /// At most one of the two; without any, every tensor is stored exactly.
  std::optional<std::int64_t> max_bytes;  ///< of the file
  /// Above 0: the squared error over the squares of every tensor (kTotal: of all together) is at
  /// most that; of tensors that the base has, the squared error over the squares of their change.
  std::optional<double> max_error;
  ErrorMeasure measure = ErrorMeasure::kRelative;
  Quantiser quantiser = Quantiser::kTrellis;
  /// In files of profile lanes: matrices get the profile small where it saves at least
  /// kSmallBytesASecond for each second of decoding. All of them are coded both ways.
  bool small_where_it_pays = false;
  std::vector<std::string> exact;  ///< names ('*' stands for any characters) that stay bit for bit
  /// Makes a delta: tensors that the base has are stored as their change since. It has to outlive
  /// the call. With ErrorMeasure::kRelative alone.
  const BaseModel* base = nullptr;
  /// Calibration: matrices that they name are rounded with error feedback, sensitive tensors get
  /// finer steps. Needs max_bytes, and no base. They have to outlive the call.
  const Statistics* statistics = nullptr;
  StatisticsUse statistics_use = {};
  std::string arch;            ///< whose tensors they are, in its order; or ""
  std::string settings;        ///< JSON that large files keep, or ""
  bool keep_settings = false;  ///< small files too
  /// Stores the digest of the tensors in a file without losses, so that deltas of it find it at
  /// once. Exact deltas always have it.
  bool keep_digest = false;
  /// Profile lanes whatever the size: for files whose integers become part of a larger one.
  bool lanes = false;
  bool overwrite = false;
  /// Where matrices have at least so many weights together, those that are encoded are kept in
  /// OUTPUT.parts until the file is there: after a kill the same call continues with them and
  /// writes the same bytes. Not with a base, and not matrices that statistics name. Unset: nothing
  /// is kept.
  std::optional<std::int64_t> parts_from;
  int threads = 0;  ///< 0: as many as there are processors. The bytes do not depend on it
  /// Sees the file as ArtifactWriter::write() shows it.
  std::function<void(const ArtifactReader&)> look = {};
};

/// Largest relative squared error of a tensor of weights, whatever the target size; of tensors
/// that are stored as differences from a base, relative to the squares of the difference.
inline constexpr double kMostRelativeError = 0.5;

/// Bytes of a file that are worth a second of decoding on one core, and integers that the profile
/// small decodes in it.
inline constexpr double kSmallBytesASecond = 4096, kSmallIntegersASecond = 4e6;

/// How one tensor ended.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  /// "integers", "short floats", "exact", "constant", "tied", "g-nets", "g-nets and integers", "as
  /// in the base", "base and integers"
  std::string stored;
  double step = 0;  ///< of integers; of rows with steps of their own, the one in their middle
  bool row_steps = false;
  std::string profile;  ///< of integers and short floats: "small", "fast", "lanes"; else ""
  double bytes = 0;     ///< its share of the file beside the header
  double seconds = 0;   ///< in which it was decoded, where it was compared
  /// Whether error and energy are known: the source has such a tensor.
  bool compared = false;
  double error = 0;   ///< squared error over squares, of the decoded file; 0: exact
  double energy = 1;  ///< squares of the decoded file over the source's
  /// Whether a base has the tensor, of real numbers, so that the next two are known.
  bool in_base = false;
  double change_error = 0;  ///< squared error over `change`; 0: exact
  double change = 0;        ///< squares of the source minus the base

  std::int64_t elements() const noexcept;
  double bits() const noexcept {
    return elements() > 0 ? 8 * bytes / static_cast<double>(elements()) : 0;
  }
};

struct WeightsReport {
  std::int64_t output_bytes = 0;
  std::int64_t parameters = 0;  ///< numbers of all tensors that are not tied
  double total_error = 0;       ///< of all tensors of real numbers together
  /// With a base: the squared error of all tensors that it has over the squares of their change; 0
  /// where nothing changed.
  std::optional<double> change_error;
  std::int64_t unchanged = 0;  ///< tensors that are bit for bit in the base
  std::string base_note;       ///< says so where the change is empty or the base saves nothing
  bool target_met = true;
  std::string target_note;  ///< why not
  std::string identity;     ///< SHA-256 of the file
  std::vector<StoredTensor> tensors;
};

/// Writes a `.gbz` of all tensors of the bundle and reads it back: every number of the report is of
/// the file on disk.
/// @throws Error(kUsage) for options that contradict each other, statistics of a tensor that is not
///         there, and where `output` is a file of the bundle or of the base; Error(kShapeMismatch)
///         naming a tensor that has another type or shape in the base, or whose statistics have
///         another shape; Error(kNonFinite) naming the first tensor with NaN or infinity, unless it
///         is a mask of 0 and -infinity; Error(kExists, kIo); Error(kInterrupted)
WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options);

/// What compress_weights() would take, from a sample of the weights; within a factor of two as a
/// rule.
struct WeightsEstimate {
  std::int64_t weights = 0;                      ///< elements of all tensors that are not tied
  std::int64_t quantized = 0;                    ///< those that become integers
  std::int64_t least_bytes = 0, most_bytes = 0;  ///< of the file
  std::int64_t memory_bytes = 0;                 ///< of the process at its peak
  std::int64_t values_chosen = 0;  ///< choices of an integer, those that are tried and dropped too
  double seconds = 0;              ///< on this machine
};
/// Writes nothing. Takes the time of a part of the work, which it measures.
/// @throws as compress_weights()
WeightsEstimate estimate_weights(const TensorBundle& weights, const WeightsOptions& options);

using TensorDecoder = std::function<std::vector<std::byte>(std::size_t index)>;

/// How the tensors of a file are stored, in its order; nothing is decoded or compared.
std::vector<StoredTensor> stored_tensors(const ArtifactReader& artifact);

/// The same, with errors against the tensors of those names that the file was made of. Ties
/// count as exact, unless the base has them.
/// @param decode  the bytes of a tensor by its index in the file, called one after another; without
///                it, the decoder for files without layer types of plugins
/// @param base    of a delta: sets in_base, change_error and change; or null
std::vector<StoredTensor> compare_with_source(const ArtifactReader& artifact,
                                              const TensorBundle& weights,
                                              const TensorDecoder& decode = {},
                                              const BaseModel* base = nullptr);

/// "warning: 2 of 40 tensors lost more than half of their energy (sum of squares): fc.weight keeps
/// 12 %, ..."; "" where none did.
std::string lost_energy_warning(const std::vector<StoredTensor>& tensors);

// Two sets of tensors side by side: what each file stores, and how far their numbers are apart.
// LibTorch-free.

/// Named tensors of a model file or of a `.gbz`, whose bytes can be read. Copies share them.
class TensorSource {
 public:
  /// Tensors that are stored as they are.
  static TensorSource of(TensorBundle tensors);
  /// @param decode  as of compare_with_source()
  static TensorSource of(ArtifactReader artifact, TensorDecoder decode = {});

  /// How each is stored, in the file's order; nothing is compared.
  const std::vector<StoredTensor>& tensors() const noexcept;
  /// Row-major and little-endian, in the tensor's own element type.
  /// @throws as the decoder
  std::vector<std::byte> bytes(std::size_t index) const;
  /// Whether bytes() may be called by several threads at once.
  bool parallel() const noexcept;
  /// Of the files that hold the tensors.
  std::int64_t file_bytes() const noexcept;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

/// One name, in one source or in both.
struct ComparedTensor {
  std::string name;
  std::optional<StoredTensor> a, b;  ///< unset: that source has no such tensor
  bool same = false;                 ///< in element type, shape and every bit
  /// Of real numbers of one shape, whatever their element types, as float32: squared difference
  /// over A's squares (where these are 0: 1, if there is a difference), and B's squares over A's.
  /// NaN where an infinity or NaN is involved.
  std::optional<double> error, energy;

  bool same_shape() const { return a && b && a->shape == b->shape; }
  bool same_dtype() const { return a && b && a->dtype == b->dtype; }
};

struct Comparison {
  std::vector<ComparedTensor> tensors;  ///< in A's order, then what B has alone
  /// Squared difference of all tensors that have an error, over A's squares of them.
  double total_error = 0;
  std::int64_t same = 0, differ = 0;  ///< of tensors that both have
  std::int64_t only_a = 0, only_b = 0;
  std::int64_t other_shape = 0, other_dtype = 0;  ///< among `differ`
};

/// @throws as TensorSource::bytes()
Comparison compare_tensors(const TensorSource& a, const TensorSource& b);

// How the numbers of tensors are distributed, before and after. LibTorch-free.

inline constexpr std::size_t kHistogramBins = 32;

/// Bins of equal width from `low` to `high`: four standard deviations around the mean of the
/// original (of the file, where there is none), and no further than its values reach. What lies
/// beyond counts to the first or the last bin.
struct TensorHistogram {
  std::string name;
  double low = 0, high = 0;
  std::vector<std::int64_t> file;      ///< [kHistogramBins]
  std::vector<std::int64_t> original;  ///< [kHistogramBins], or empty: there is no such tensor
  std::int64_t not_finite = 0;         ///< NaN and infinities of both, which no bin counts
};

/// Of the tensors of real numbers with those names, in the file's order; of the original's only
/// those of the same shape.
/// @param original  or null
/// @throws as TensorSource::bytes()
std::vector<TensorHistogram> histograms(const TensorSource& file, const TensorSource* original,
                                        const std::unordered_set<std::string>& names);

// Tensors of an architecture whose layout follows from its name (arch_layout()).

/// Whether the bundle has the tensors of that architecture and no others, of the same shapes.
bool fits_layout(const TensorBundle& weights, const std::string& arch);

/// The tensors in the order of options.arch. With a target size or error, batch norms are
/// rewritten to the same function of statistics 0 and 1 - eps, so that two vectors of each are
/// constant: those of float32 without collapsed channels, whose scale would be unbounded,
/// and none of whose tensors options.exact keeps.
/// @param weights  fits_layout()
TensorBundle arranged(const TensorBundle& weights, const WeightsOptions& options);

}  // namespace gbcompress
