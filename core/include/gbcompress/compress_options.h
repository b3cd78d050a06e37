#pragma once
/// Options of compress(): the target, the effort, what the program chooses. No LibTorch.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/bottleneck_options.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/train_options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class Group;

/// Target of a run. At most one is set.
struct Target {
  std::optional<double> ratio;            ///< input file bytes / output file bytes, > 1
  std::optional<std::int64_t> max_bytes;  ///< of the output file
  std::optional<double> bits;  ///< of the output file per weight of the model: above 0 and below
                               ///< what the model takes
  std::optional<double> max_drop;  ///< in the metric's unit, measured on the held-out split
  /// Squared error over the squares of every tensor, above 0 and below 1; no training.
  std::optional<double> max_error;
  /// The smallest file without a measurable quality drop on the held-out split; training only.
  bool no_loss = false;
};

/// The smallest size of a file that a target may name, bytes.
inline constexpr std::int64_t kSmallestFile = 100;
/// What the targets of a size are relative to.
struct InputSize {
  std::int64_t file_bytes = 0;  ///< of the model's file
  std::int64_t weights = 0;     ///< elements of all tensors of the model that are not tied
  double real_bits = 0;         ///< mean bits of a real element in the model's file; 0: none is
};
/// The size that a target names, in bytes; unset where it names none.
/// @throws Error(kUsage) for a ratio that is not above 1, for bits that are not above 0 or not
///         below those of the model, and for a file smaller than kSmallestFile
std::optional<std::int64_t> target_bytes(const Target& target, const InputSize& input);

/// Which options are the program's to choose from model, data and time; those that are not are
/// taken as they stand.
struct Choices {
  bool mode = false;           ///< quantized weights, unless rules differ
  bool loss = false;           ///< train.loss and train.labels: labels, and the original's outputs
  bool epochs = false;         ///< train.epochs
  bool batch = false;          ///< train.batch
  bool learning_rate = false;  ///< bottleneck.quantized_optimizer.lr
  bool step_speed = false;     ///< bottleneck.step_speed
  bool augmentation = false;   ///< train.shift and train.flip
  bool lambda = false;         ///< train.rate.lambda, where a target's search begins
  // Of g-nets for a target size, by recipe.h; of other g-nets the options stand.
  bool generator = false;   ///< bottleneck.gnet.generator, and rank and widths with their defaults
  bool gnet_lr = false;     ///< bottleneck.gnet_optimizer.lr
  bool gnet_decay = false;  ///< bottleneck.gnet_optimizer.weight_decay
  bool code_plain = false;  ///< bottleneck.code_plain
  bool coding = false;      ///< bottleneck.coding
};

/// How far up the methods a run with data and a target size goes: data-free, calibrated, trained.
enum class Effort : std::uint8_t {
  kFast,      ///< never trains: data-free, or calibrated
  kBalanced,  ///< trains only if calibration has a measurable quality drop
  kMax,       ///< trains
};
std::string_view effort_name(Effort effort) noexcept;  ///< "fast", "balanced", "max"

struct CompressOptions {
  std::filesystem::path output;
  bool overwrite = false;
  Target target;
  Choices choose;
  /// Unset: effort_of() tells.
  std::optional<Effort> effort;
  /// Minutes that all of it may take, above 0; unset: chosen from model and data, not
  /// from the machine.
  std::optional<double> minutes;
  /// The model is new, so that its own quality is nothing to be compared with.
  bool from_scratch = false;
  /// Whether the user set the widths of the g-nets; else the program chooses them.
  bool hidden_given = false;
  BottleneckOptions bottleneck;
  TrainOptions train;
  std::string settings;  ///< resolved settings as JSON, kept in the artifact
  CheckpointSettings checkpoints;
  /// Removes the checkpoints once the file is written.
  bool remove_checkpoints = true;
  /// What else the run depends on, by name, beside model and data: "setting train.batch".
  CheckpointFacts facts;
  /// The ranks that work together; null: one process. Rank 0 writes the file.
  Group* group = nullptr;
  /// Lines that `tell` gets once the options are checked: what was given without an effect.
  std::vector<std::string> notes;
  /// Told what concerns the run: placements, checkpoints. May be empty.
  std::function<void(const std::string&)> tell;
};

/// The effort of a run with data: the one that is set; if none is, kBalanced with a target size
/// (ratio, max_bytes, bits) and all of the training left to the program (Choices), else kMax.
Effort effort_of(const CompressOptions& options);
/// Whether a run with data may train: it has a loss over data, epochs, and more effort than kFast.
bool may_train(const CompressOptions& options);
/// Whether a run with data tries cheaper methods than training first: it has a target size, less
/// effort than kMax, and quantized weights without g-nets.
bool tries_cheaper_methods(const CompressOptions& options);

/// A line for each rule that matches no name, with the nearest names: "warning: the rule for
/// 0.weigth matches no tensor; the nearest are 0.weight, 2.weight".
/// @param names  of all tensors
std::vector<std::string> idle_rule_warnings(const std::vector<LayerRule>& rules,
                                            const std::vector<std::string>& names);

}  // namespace gbcompress
