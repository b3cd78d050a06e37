#pragma once
/// From the weights of a model alone to a `.gbz` file (docs/guides/weights.md); one tensor at a
/// time is in memory. No LibTorch.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/compare.h"
#include "gbcompress/statistics.h"
#include "gbcompress/stored_tensor.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class ArtifactReader;
class BaseModel;

/// What the squared errors of tensors count.
enum class ErrorMeasure : std::uint8_t {
  kRelative,  ///< of every tensor, relative to its squares
  kTotal,     ///< of all tensors together, one step for all: for comparisons at equal squared error
};
std::string_view measure_name(ErrorMeasure measure) noexcept;  ///< "relative", "total"

/// What is requested of matrices by their names.
struct TensorTarget {
  std::string match;  ///< full name; '*' stands for any characters
  /// Bits per weight, estimated from a sample. A matrix loses at most half of the squares of a row.
  std::optional<double> bits;
  std::optional<double> max_error;  ///< relative squared error of the file's values; above 0
};

struct WeightsOptions {
  /// At most one of the two; without any, every tensor is stored exactly.
  std::optional<std::int64_t> max_bytes;  ///< of the file
  /// Above 0: the squared error over the squares of every tensor (kTotal: of all together) is at
  /// most that; of tensors that the base has, the squared error over the squares of their change.
  std::optional<double> max_error;
  ErrorMeasure measure = ErrorMeasure::kRelative;
  Quantizer quantizer = Quantizer::kTrellis;
  /// In files of profile lanes: matrices get the profile small where it saves at least
  /// kSmallBytesASecond for each second of decoding. All of them are coded both ways.
  bool small_where_it_pays = false;
  std::vector<std::string> exact;  ///< names ('*' stands for any characters) that stay bit for bit
  /// Of matrices: their own size or error, whatever max_bytes or max_error ask; the last one that
  /// matches counts. With ErrorMeasure::kRelative, and without a base.
  std::vector<TensorTarget> targets = {};
  /// Makes a delta: tensors that the base has in the same type and shape are stored as their change
  /// since, others whole. Where everything is exact there may be several bases, at most kMostBases:
  /// each tensor is the change since the best one, and tensors of another height and other names
  /// count as well. They have to outlive the call. With ErrorMeasure::kRelative alone.
  std::span<const BaseModel> bases = {};
  /// The first one; null: none.
  const BaseModel* base() const noexcept { return bases.empty() ? nullptr : bases.data(); }
  /// Calibration: matrices that they name are rounded with error feedback, sensitive tensors get
  /// finer steps. Needs max_bytes, and no base. They have to outlive the call.
  const Statistics* statistics = nullptr;
  StatisticsUse statistics_use = {};
  /// Matrices of the statistics that it names are fitted to the inputs that they have once the
  /// layers before them are quantized. Needs statistics; it has to outlive the call.
  SequentialModel* sequential = nullptr;
  /// Where the search for max_bytes begins: WeightsReport::steps of a file that is like this one.
  std::optional<double> steps = {};
  std::string arch;            ///< whose tensors they are, in its order; or ""
  std::string settings;        ///< JSON that large files keep, or ""
  bool keep_settings = false;  ///< small files too
  /// Stores the digest of the tensors in a file without losses, so that deltas of it find it at
  /// once. Exact deltas always have it.
  bool keep_digest = false;
  /// ArtifactReader::originals() of an exact file with these tensors in this order, to be kept in a
  /// file without losses; empty: those of the bundle, where it has some (TensorBundle::contents).
  std::vector<std::byte> originals = {};
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

struct WeightsReport {
  std::int64_t output_bytes = 0;
  std::int64_t parameters = 0;  ///< numbers of all tensors that are not tied
  double total_error = 0;       ///< of all tensors of real numbers together
  /// With a base: the squared error of all tensors that it has over the squares of their change; 0
  /// where nothing changed.
  std::optional<double> change_error;
  std::int64_t unchanged = 0;  ///< tensors that are bit for bit in the base
  bool target_met = true;
  std::string target_note;  ///< why not
  /// A sentence each: tensors that are exact without a rule (with NaN or infinity, parameters of
  /// weights that are packed already); original files that are not kept; of a base, that the change
  /// is empty, that it saves nothing, and what it has in another type or shape.
  std::vector<std::string> notes;
  std::string identity;  ///< SHA-256 of the file
  std::string digest;    ///< BaseModel::digest() of the tensors, where the file states it
  double steps = 0;      ///< of a size: log2 of all step sizes, beside those of the allocation
  std::vector<StoredTensor> tensors;
};

/// Writes a `.gbz` of all tensors of the bundle and reads it back: every number of the report is of
/// the file on disk.
/// @throws Error(kUsage) for options that contradict each other, statistics of a tensor that is not
///         there, and where `output` is a file of the bundle or of the base; Error(kShapeMismatch)
///         where the base has every tensor in another type or shape, or naming one whose
///         statistics have another shape; Error(kExists, kIo); Error(kInterrupted)
WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options);

/// Of a file with layers (docs/reference/layers.md).
struct LayersReport {
  WeightsReport draft;  ///< of the first part: its bytes, and the errors of its values
  WeightsReport exact;  ///< of the whole file
};

/// Writes a `.gbz` with layers: a draft that compress_weights() would write, and the exact rest. It
/// is read back as that is. The draft's values are in memory meanwhile.
/// @param options  of the draft, without a base; a target is due
/// @throws as compress_weights()
LayersReport compress_layers(const TensorBundle& weights, const std::filesystem::path& output,
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
