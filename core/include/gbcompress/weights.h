#pragma once
/// From the weights of a model alone, without any data, to a `.gbz` file (docs/weights.md).
/// LibTorch-free; one tensor at a time is in memory.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/codec.h"
#include "gbcompress/dtype.h"

namespace gbcompress {

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
  std::string arch;                ///< whose tensors they are, in its order; or ""
  std::string settings;            ///< JSON that large files keep, or ""
  bool keep_settings = false;      ///< small files too
  bool overwrite = false;
  int threads = 0;  ///< 0: as many as there are processors. The bytes do not depend on it
};

/// No tensor of weights loses more than this share of its squares, whatever size is asked.
inline constexpr double kMostRelativeError = 0.5;

/// How one tensor ended.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  /// "integers", "short floats", "exact", "constant", "tied"
  std::string stored;
  double step = 0;  ///< of integers; of rows with steps of their own, the one in their middle
  bool row_steps = false;
  double bytes = 0;  ///< its share of the file beside the header
  double error = 0;  ///< squared error over squares, of the decoded file; 0: exact

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
/// @throws Error(kUsage) for options that contradict each other; Error(kNonFinite) naming the first
///         tensor with NaN or infinity, unless it is a mask of 0 and -infinity; Error(kExists,
///         kIo); Error(kInterrupted)
WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options);

/// How the tensors of a file differ from those it was made of, by name; ties and tensors that the
/// bundle lacks count as exact.
std::vector<StoredTensor> compare_with_source(const class ArtifactReader& artifact,
                                              const TensorBundle& weights);

}  // namespace gbcompress
