#pragma once
/// Every option of a run, and the table of settings behind files, environment, `--set` and flags.
/// No LibTorch.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/codec.h"
#include "gbcompress/gnet.h"
#include "gbcompress/version.h"
#include "gbcompress/weights.h"

namespace GBC_API gbcompress {

// Options of AdamW, and learning-rate schedules. No LibTorch.

/// Defaults of torchGB.
struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  ///< decoupled
};

enum class Schedule : std::uint8_t {
  kConstant,
  kCosine,    ///< linear warm-up over the first tenth, then half a cosine to 0
  kOneCycle,  ///< cosine from 1/25 up to 1 over the first tenth, cosine down to 1/250,000
};
std::string_view schedule_name(Schedule schedule) noexcept;  ///< "constant", "cosine", "one_cycle"
std::optional<Schedule> parse_schedule(std::string_view name) noexcept;
/// Factor on the learning rate of step `step` of `total`, 0 <= step < total. Always above 0: cosine
/// would reach 0 one step behind the last.
/// @throws Error(kUsage) for a step outside
double schedule_factor(Schedule schedule, std::int64_t step, std::int64_t total);

// Every option of a run. No LibTorch: settings are read, checked and shown without loading it.

class GenomicBottleneck;
class Group;

/// Factor on dL/dW before it enters the g-nets.
enum class GradientScale : std::uint8_t {
  kTorchGb,  ///< 1 / (positions of a tile * std^2), std = output_scale / 2
  kNone,
};

/// Where g-nets are computed when there are several ranks. Both give the same result but for
/// rounding.
enum class Placement : std::uint8_t {
  kAuto,        ///< per bank, from what computing and sending takes on these machines
  kOwner,       ///< each g-net on one rank; gradients of weights travel there, weights travel back
  kReplicated,  ///< every g-net on every rank; gradients of g-net parameters travel
};
std::string_view placement_name(Placement placement) noexcept;  ///< "auto", "owner", "replicated"
std::optional<Placement> parse_placement(std::string_view name) noexcept;

/// What a file holds of a trainable parameter.
enum class WeightMode : std::uint8_t {
  kGenerated,  ///< g-nets where a layer type takes it and they are smaller, else the exact values
  kQuantized,  ///< integers times a step size, entropy-coded, trained with the rate in the loss
  kExact,      ///< the exact values
  kResidual [[deprecated("use kQuantized")]] = kQuantized,
  kRaw [[deprecated("use kExact")]] = kExact,
};
std::string_view mode_name(WeightMode mode) noexcept;  ///< "generated", "quantized", "exact"
/// Also of the names of version 0.1, "residual" and "raw".
std::optional<WeightMode> parse_mode(std::string_view name) noexcept;

/// Overrides for the parameters whose names match; of several matching rules the last one wins, key
/// by key. From `[[layer]]` tables of the configuration.
struct LayerRule {
  std::string match;  ///< full name, '*' stands for any characters: "encoder.*.weight"
  std::optional<std::string> type;  ///< a layer type's id, or "plain" to leave it out
  std::optional<WeightMode> mode;
  std::optional<bool> prior;
  std::optional<std::int64_t> tile_weights;
  std::optional<double> ratio;
  std::optional<std::vector<std::int64_t>> hidden;
  std::optional<AxisCode> row_code, col_code, kernel_code;
  std::optional<Generator> generator;
  std::optional<std::int64_t> rank;
};

/// What bits of parameters that are stored as integers cost while they are trained.
struct RateOptions {
  /// The loss is the task's plus lambda * bits / predictions; 0 or more. At ln 2 it is a
  /// description length: of the labels given the model, and of the model.
  double lambda = 0.3;
  /// Rate weight at the start of training, 0 or more; it rises to lambda in the first half of the
  /// run. Above 0 for a run that continues another one.
  double first_lambda = 0;
  /// What the task's loss is a mean over, in all training data together: one per image, one per
  /// character. At least 1 with a rate weight.
  std::int64_t predictions = 0;
  /// Calls of step() in the whole run: the rate weight rises over the first half of them. 0:
  /// unknown, and the rate weight is constant.
  std::int64_t steps = 0;
  /// finish() chooses integers for a file of at most so many bytes, and lambda is only the
  /// first rate weight, which is adapted to that size; needs `steps`. Several runs at fixed
  /// rate weights, as compress() searches, give smaller files.
  std::optional<std::int64_t> max_bytes;
};

struct BottleneckOptions {
  GNetOptions gnet;
  std::vector<LayerRule> layers;
  /// Parameters with fewer elements stay plain, as do those whose g-nets would not be smaller.
  std::int64_t min_elements = 512;
  AdamWOptions gnet_optimizer;
  AdamWOptions plain_optimizer = {.weight_decay = 0};
  WeightMode mode = WeightMode::kGenerated;
  /// How g-nets are stored. With kCoded they are integers times trained step sizes, and every rank
  /// computes all of them; the same holds, whatever the value, if one of them is a
  /// prior.
  Coding coding = Coding::kI8;
  /// Quantized weights that a layer type takes have a g-net as prior: it gives every weight a mean
  /// and, if it is stochastic, a deviation for the coder; the integers hold the difference.
  bool gnet_prior = false;
  /// Rows of quantized matrices (outputs) have step sizes of their own instead of one per tensor.
  bool row_steps = false;
  /// Learning rate of the logarithms of step sizes over that of weights, above 0: an optimizer
  /// moves either by about its learning rate, and step sizes may change by octaves.
  double step_speed = 3;
  /// Of quantized weights and their step sizes; the weight decay is that of the weights alone.
  AdamWOptions residual_optimizer = {.lr = 2e-3, .beta2 = 0.999, .weight_decay = 0};
  RateOptions rate;
  GradientScale gradient_scale = GradientScale::kTorchGb;
  std::uint64_t seed = 0;
  std::string kernel = "fused";            ///< or "cuda", "reference"
  Placement placement = Placement::kAuto;  ///< with one rank nothing to choose
  /// What the file says of itself, which is part of its size: what `--arch` is, and the settings as
  /// JSON. Small files of integers go without the settings.
  std::string arch, settings;
};

/// What the file holds of the parameter `name`, after all rules.
WeightMode mode_of(const std::string& name, const BottleneckOptions& options);

enum class Loss : std::uint8_t {
  kTask,     ///< cross-entropy against the labels
  kDistill,  ///< cross-entropy against the original model's output distribution
  kWeights,  ///< squared distance to the original weights; needs no data and no forward pass
};
std::string_view loss_name(Loss loss) noexcept;  ///< "task", "distill", "weights"
std::optional<Loss> parse_loss(std::string_view name) noexcept;

/// The rate of training, and what replaces it without training.
/// predictions and steps are those of the data: see rate_of().
struct TrainRateOptions : RateOptions {
  /// Without training and with a target size: a tensor's step size is proportional to its
  /// deviation^evenness, 0 to 1.
  double evenness = 0;
  /// The error that is bounded without training.
  ErrorMeasure measure = ErrorMeasure::kRelative;
  /// How integers are chosen without training.
  Quantiser quantiser = Quantiser::kTrellis;
  /// Where there is data but nothing is trained (no epochs): samples of the training split that say
  /// what a tensor's error costs, 0 for none; its step is then proportional to
  /// importance^(-temper/2), 0 to 1.
  std::int64_t calibration = 512;
  double temper = 0.75;
};

/// How a batch becomes gradients (gbcompress/strategy.h).
struct StrategyChoice {
  std::string name = "backprop";
  std::string options;  ///< "KEY=VALUE ...", separated by blanks
};

struct TrainOptions {
  Loss loss = Loss::kTask;
  std::int64_t epochs = 10;      ///< over the training split; 0 to 1,000,000
  std::int64_t batch = 64;       ///< samples a step, at least 1
  std::int64_t fit_steps = 300;  ///< steps of fitting the original weights before anything else
  Schedule schedule = Schedule::kOneCycle;
  std::uint64_t seed = 0;
  /// Parts that a rank's share of a batch is computed in, one after another, to save memory.
  std::int64_t accumulate = 1;
  /// Above 0: a batch is computed in this many shards, a power of two up to 4,096 and at least the
  /// number of ranks, and their gradients are added up in one fixed tree: the same bits for any
  /// number of ranks. g-nets must be replicated. 0: each rank's part is one.
  std::int64_t shards = 0;
  /// Of Loss::kDistill: the part of the labels' cross-entropy in the loss, 0 to below 1.
  double labels = 0;
  /// Random shift of images, in pixels at most, and horizontal flip of half of them, in each epoch.
  std::int64_t shift = 0;
  bool mirror = false;
  /// Batch norms compute with their running statistics, and keep them; dropout stays on.
  bool freeze_norms = false;
  TrainRateOptions rate;
  /// train() is given the object, callers of it read this.
  StrategyChoice strategy;
};

struct DataOptions {
  /// Per-channel mean and deviation subtracted and divided after pixels are scaled to 0..1. Empty:
  /// the data set's own habit (cifar10: ImageNet's, as the public ResNets expect; others: none).
  std::vector<double> mean = {}, std = {};
  std::int64_t context = 128;  ///< characters a window of text, 1 to 65,536
};

struct CheckpointSettings {
  /// Where checkpoints are written; empty: nowhere. Made when the first one is saved.
  std::filesystem::path folder;
  /// A checkpoint, or a folder of them, to go on from.
  std::optional<std::filesystem::path> resume;
  std::int64_t every_steps = 0;  ///< 0: not by steps
  double every_minutes = 10;     ///< 0: not by time
  int keep = 2;                  ///< at least 2
};

/// Target of a run. At most one is set.
struct Target {
  std::optional<double> ratio;            ///< input file bytes / output file bytes, > 0
  std::optional<std::int64_t> max_bytes;  ///< of the output file
  std::optional<double> bits;             ///< of the output file per weight of the model, > 0
  std::optional<double> max_drop;         ///< in the metric's unit, measured on the held-out split
  /// Squared error over the squares of every tensor, above 0 and below 1; no training.
  std::optional<double> max_error;
  /// The smallest file without a measurable quality drop on the held-out split; training only.
  bool no_loss = false;
};

/// The smallest size of a file that a target may name, bytes.
inline constexpr std::int64_t kSmallestFile = 100;
/// The size that a target names, in bytes; unset where it names none.
/// @param input_bytes  of the model's file
/// @param weights      elements of all tensors of the model that are not tied
/// @throws Error(kUsage) for a ratio, a size or bits that are no numbers above 0, or for a file
///         smaller than kSmallestFile
std::optional<std::int64_t> target_bytes(const Target& target, std::int64_t input_bytes,
                                         std::int64_t weights);

/// Which options are the program's to choose from model, data and time; those that are not are
/// taken as they stand.
struct Choices {
  bool mode = false;           ///< quantized weights, unless rules differ
  bool loss = false;           ///< train.loss and train.labels: labels, and the original's outputs
  bool epochs = false;         ///< train.epochs
  bool batch = false;          ///< train.batch
  bool learning_rate = false;  ///< bottleneck.residual_optimizer.lr
  bool step_speed = false;     ///< bottleneck.step_speed
  bool augmentation = false;   ///< train.shift and train.mirror
  bool price = false;          ///< train.rate.lambda, where a target's search begins
};

/// How far up the methods a run with data and a target size goes: data-free, calibrated, trained.
enum class Effort : std::uint8_t {
  kFast,      ///< never trains: data-free, or calibrated
  kBalanced,  ///< trains only if calibration has a measurable quality drop
  kMax,       ///< trains
};
std::string_view effort_name(Effort effort) noexcept;  ///< "fast", "balanced", "max"
std::optional<Effort> parse_effort(std::string_view name) noexcept;

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
  /// Widths of the g-nets are the planner's to choose where the user set none.
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

// Settings: built-in defaults < configuration file < GBCOMPRESS_* < --set < flags. One table holds
// every key with its type, default and meaning; the file, the environment, `--set`, the help text
// and docs/reference/config.md all come from it.

/// One row of the table. At most one target is in force: setting one clears the others.
struct SettingInfo {
  std::string key;            ///< "gnet.hidden"
  std::string type;           ///< "integer", "number", "string", "integers", "numbers"
  std::string default_value;  ///< as TOML writes it; "" where unset by default
  std::string help;
  std::vector<std::string> choices;  ///< of a string with a fixed set of values; else empty
};
const std::vector<SettingInfo>& setting_table();
/// The keys of a `[[layer]]` table; none has a default.
const std::vector<SettingInfo>& layer_table();
/// "GBCOMPRESS_GNET_HIDDEN" for "gnet.hidden".
std::string environment_name(const std::string& key);

/// All settings of a run, typed.
struct Settings {
  CompressOptions compress;  ///< output and overwrite are not settings and stay empty
  DataOptions data;
  std::int64_t threads = 0;  ///< 0: one for each core, one alone for small models
  /// Keys that were set, and where: "train.epochs" by "--epochs"; "layer.type" by "run.toml:9:1".
  std::map<std::string, std::string> given;
  /// A line for each name of version 0.1 that was used in place of the present one.
  std::vector<std::string> warnings;

  /// The defaults of setting_table(): quantized weights, and the program chooses what it can
  /// choose. Else those of the structures above, but for the g-nets' learning rate of 1e-2: fitting
  /// a given model bears more than training from random weights.
  Settings();

  /// Reads a TOML file (at most 1 MiB, nesting at most 32). `schema = 1` may stand at the top;
  /// `[[layer]]` tables are added to compress.bottleneck.layers. Nothing is changed on an error.
  /// @throws Error(kNotFound, kIo); Error(kConfig): "FILE:LINE:COLUMN: unknown key gnet.hiden; did
  ///         you mean gnet.hidden?", wrong type, out of range, syntax
  void apply_file(const std::filesystem::path& file);
  /// GBCOMPRESS_GNET_HIDDEN=8 sets gnet.hidden; every key has such a name. Unknown names are errors
  /// when they begin like a key's (GBCOMPRESS_GNET_...). @throws Error(kConfig)
  void apply_environment();
  /// One `key=value`, the value as TOML writes it; a bare word is a string, and the brackets of a
  /// list may be left out. @throws Error(kConfig)
  void apply_assignment(std::string_view assignment);
  /// @param source  named in messages: "--epochs"; a flag is named in place of the key
  void apply(const std::string& key, const std::string& toml_value, const std::string& source);

  /// Every key that the result depends on with its resolved value, as one JSON object; the same
  /// settings, the same text. How the run is carried out (threads, kernel, ranks, checkpoints) is
  /// not in it.
  std::string to_json() const;
  /// The same for keys that differ from their defaults only, with the version whose defaults those
  /// are: the settings that a file stores, in few bytes.
  std::string changes_json() const;
};

/// What decides which settings have an effect, beside the settings themselves.
struct SettingsUse {
  bool data = false;
  bool images = false;  ///< the data are images
  bool text = false;    ///< the data are text
  bool from_scratch = false;
  std::int64_t ranks = 1;
};

/// One line that names each key of settings.given without an effect on compress(), with the reason:
/// "warning: --epochs and --minutes have no effect: there are no data to train on (`data`)"; empty
/// where all have one.
std::string unused_settings(const Settings& settings, const SettingsUse& use);
/// The same for a call that reads only some sections or keys: "data.", "train.threads". Keys from
/// files and the environment serve several calls and are not named.
std::string unused_settings(const Settings& settings, const std::vector<std::string>& read,
                            const std::string& call);

}  // namespace gbcompress
