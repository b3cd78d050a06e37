#pragma once
/// From the weights of a model alone, without any data, to a `.gbz` file (docs/weights.md).
/// LibTorch-free; one tensor at a time is in memory.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/dtype.h"
#include "gbcompress/export.h"

namespace GBC_API gbcompress {

class ArtifactReader;
class BaseModel;
struct TensorBundle;

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
  /// most that.
  std::optional<double> max_error;
  ErrorMeasure measure = ErrorMeasure::kRelative;
  Quantiser quantiser = Quantiser::kTrellis;
  std::vector<std::string> exact;  ///< names ('*' stands for any characters) that stay bit for bit
  /// Makes a delta: tensors that the base has are stored as what changed. It has to outlive the
  /// call. With ErrorMeasure::kRelative alone.
  const BaseModel* base = nullptr;
  std::string arch;            ///< whose tensors they are, in its order; or ""
  std::string settings;        ///< JSON that large files keep, or ""
  bool keep_settings = false;  ///< small files too
  bool overwrite = false;
  int threads = 0;  ///< 0: as many as there are processors. The bytes do not depend on it
  /// Sees the file as ArtifactWriter::write() shows it.
  std::function<void(const ArtifactReader&)> look = {};
};

/// No tensor of weights loses more than this share of its squares, whatever size is asked; of
/// those that are stored as differences from a base, of the squares of the difference.
inline constexpr double kMostRelativeError = 0.5;

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
  double bytes = 0;  ///< its share of the file beside the header
  /// Whether error and energy are known: the source has such a tensor.
  bool compared = false;
  double error = 0;   ///< squared error over squares, of the decoded file; 0: exact
  double energy = 1;  ///< squares of the decoded file over the source's

  std::int64_t elements() const noexcept;
  double bits() const noexcept {
    return elements() > 0 ? 8 * bytes / static_cast<double>(elements()) : 0;
  }
};

struct WeightsReport {
  std::int64_t output_bytes = 0;
  std::int64_t parameters = 0;  ///< numbers of all tensors that are not tied
  double total_error = 0;       ///< of all tensors of real numbers together
  bool target_met = true;
  std::string target_note;  ///< why not
  std::string identity;     ///< SHA-256 of the file
  std::vector<StoredTensor> tensors;
};

/// Writes a `.gbz` of all tensors of the bundle and reads it back: every number of the report is of
/// the file on disk.
/// @throws Error(kUsage) for options that contradict each other; Error(kShapeMismatch) naming a
///         tensor that has another type or shape in the base; Error(kNonFinite) naming the first
///         tensor with NaN or infinity, unless it is a mask of 0 and -infinity; Error(kExists,
///         kIo); Error(kInterrupted)
WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options);

using TensorDecoder = std::function<std::vector<std::byte>(std::size_t index)>;

/// How the tensors of a file are stored, in its order; nothing is decoded or compared.
std::vector<StoredTensor> stored_tensors(const ArtifactReader& artifact);

/// The same, and what they lost beside the tensors of those names that the file was made of. Ties
/// count as exact.
/// @param decode  the bytes of a tensor by its index in the file, asked one after another; without
///                it, the decoder for files without layer types of plugins
std::vector<StoredTensor> compare_with_source(const ArtifactReader& artifact,
                                              const TensorBundle& weights,
                                              const TensorDecoder& decode = {});

/// "warning: 2 of 40 tensors lost more than half of their energy (sum of squares): fc.weight keeps
/// 12 %, ..."; "" where none did.
std::string lost_energy_warning(const std::vector<StoredTensor>& tensors);

}  // namespace gbcompress
