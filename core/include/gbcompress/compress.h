#pragma once
/// A whole run: a model in, a `.gbz` out, and the truth about that file; the curve of such runs.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/report.h"
#include "gbcompress/train.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

/// The plan that compress() executes, with the choices of training and the cost. Trains and writes
/// nothing. [collective]
CompressionPlan plan_compression(Model& model, std::int64_t input_bytes, const Data* data,
                                 Model* teacher, const Registry& registry,
                                 const CompressOptions& options);

/// Executes the plan of the options: makes the file, writes it, reads it back, expands and
/// evaluates it. `model` ends with the expanded weights. With several ranks [collective]; only rank
/// 0's report has what is measured on the file.
/// @param input_bytes  size of the model file on disk, the ratio's numerator
/// @param data     null: nothing is calibrated, trained on data or evaluated
/// @param teacher  a second copy of the model, needed for Loss::kDistill
/// @throws Error(kUsage) for a target out of range or a loss that needs what is not there
CompressionReport compress(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                           const Registry& registry, const CompressOptions& options,
                           const ProgressSink& progress = {});

// The rate-accuracy curve of a model, beside baselines.

/// Methods of a curve, as tables name them.
inline constexpr const char* kDenseMethod = "dense, trained";
inline constexpr const char* kQuantizedMethod = "quantized";
inline constexpr const char* kGNetMethod = "g-nets alone";
inline constexpr const char* kRoundingMethod = "rounding + zstd";
inline constexpr const char* kFactorMethod = "truncated SVD, fp16 + zstd";

/// One point of a curve. Bytes and quality are of what was written and read back.
struct SweepPoint {
  std::string method;   ///< one of the above
  std::string setting;  ///< "lambda 0.3", "4 bits", "rank 1/8"
  std::int64_t bytes = 0;
  double ratio = 0;              ///< input bytes / bytes
  std::optional<double> metric;  ///< on the test split; unset: not evaluated
  /// Squared difference of all tensors of two and more dimensions to the weights that the point
  /// began with, over their squares. Without data it is all there is; after training on a task it
  /// says nothing.
  double weight_error = 0;
  double seconds = 0;
  std::string file;  ///< name in the folder; empty for controls that are no `.gbz`
  bool target_met = true;
};

struct SweepOptions {
  std::filesystem::path folder;  ///< made where it does not exist
  /// One of them is not empty: rate weights (with data), ratios of sizes, relative squared
  /// errors (without training). All above 0.
  std::vector<double> lambdas, ratios, errors;
  /// Everything else of every point. Its output, target, mode and checkpoints are not read. Its
  /// group's ranks share the points, each of which one of them computes alone; all must see the
  /// same folder.
  CompressOptions compress;
  /// The model is new: it is first trained as it is, and that is what controls begin with.
  bool from_scratch = false;
};

struct SweepReport {
  std::int64_t input_bytes = 0, parameters = 0;
  std::optional<Metric> metric;
  double before = 0;  ///< metric of the model, or of the dense one where it is new
  std::vector<SweepPoint> points;
  std::int64_t computed = 0;  ///< points of this call, of all ranks; the others were there
};

/// Told what begins, of which method, setting and file are known, or what was finished, after it is
/// on the disk.
using SweepSink = std::function<void(const SweepPoint& point)>;

/// Computes every point that `folder`/points.jsonl does not hold: quantized weights, g-nets
/// alone of the same sizes, and the baselines. A call that was interrupted anywhere, by SIGKILL
/// too, is resumed by calling it again, with any number of ranks. The model ends with its own
/// values. [collective]
/// @param input_bytes  size of the model on disk, the ratios' numerator
/// @throws Error(kUsage) for lists that do not fit the data, and where the folder holds points of
///         another model, other data or other settings (named); Error(kCorrupt) for points.jsonl
///         that no sweep wrote; what compress() throws
/// @return on rank 0 everything; on others what they know
SweepReport sweep(Model& model, std::int64_t input_bytes, const Data* data, Model* teacher,
                  const Registry& registry, const SweepOptions& options,
                  const ProgressSink& progress = {}, const SweepSink& finished = {},
                  const SweepSink& begins = {});

/// One line a point, with a header; RFC 4180.
std::string sweep_csv(const SweepReport& report);
/// One object: the request, the model, the points.
std::string sweep_json(const SweepReport& report);
/// A chart: bytes on a logarithmic axis, quality on the other, one line a method.
std::string sweep_svg(const SweepReport& report, const std::string& title);
/// sweep.csv, sweep.json and sweep.svg, each whole or not at all.
void write_sweep(const SweepReport& report, const std::filesystem::path& folder,
                 const std::string& title);

}  // namespace gbcompress
