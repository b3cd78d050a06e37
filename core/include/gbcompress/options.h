#pragma once
/// Every option of a run, and the table of settings behind files, environment, `--set` and flags.
/// No LibTorch.

#include <cstdint>
#include <filesystem>
#include <functional>
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
  kResidual,   ///< integers times a learned step, entropy-coded, trained with the rate in the loss
  kRaw,        ///< the exact values
};
std::string_view mode_name(WeightMode mode) noexcept;  ///< "generated", "residual", "raw"
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
  /// The price that training begins with, 0 or more; it comes to lambda in the first half of the
  /// run. Above 0 for a run that goes on from what another one ended with.
  double first_lambda = 0;
  /// What the task's loss is a mean over, in all training data together: one a picture, one a
  /// character. At least 1 where there is a price.
  std::int64_t predictions = 0;
  /// Calls of step() in the whole run: the price rises over the first half of them. 0: not known,
  /// and the price is the same from the first one on.
  std::int64_t steps = 0;
  /// finish() chooses integers for a file of at most so many bytes, and lambda is only where the
  /// price begins, which is steered towards such files; needs `steps`. Several runs at fixed
  /// prices, as compress() searches, end better.
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
  /// How g-nets are stored. With kCoded they are integers times learned steps while they train, and
  /// every rank computes all of them; so they are, whatever is said here, wherever one of them is a
  /// prior.
  Coding coding = Coding::kI8;
  /// Residual parameters that a layer type takes have a g-net as prior: it gives every weight a
  /// mean and, where it is stochastic, a deviation for the coder; the integers say what is left.
  bool gnet_prior = false;
  /// Rows of residual matrices (outputs) have steps of their own instead of one a tensor.
  bool row_steps = false;
  /// How many times faster than numbers the logarithms of steps learn, above 0: an optimiser moves
  /// either by about its learning rate a step, and steps may have octaves to go.
  double step_speed = 3;
  /// Of residual parameters and their steps; the weight decay is that of the parameters alone.
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

enum class Loss : std::uint8_t {
  kTask,     ///< cross-entropy against the labels
  kDistill,  ///< cross-entropy against the original model's output distribution
  kWeights,  ///< squared distance to the original weights; needs no data and no forward pass
};
std::string_view loss_name(Loss loss) noexcept;  ///< "task", "distill", "weights"
std::optional<Loss> parse_loss(std::string_view name) noexcept;

/// What bits cost while they are trained, and what takes the place of it where nothing is trained.
/// predictions and steps are those of the data: see rate_of().
struct TrainRateOptions : RateOptions {
  /// Where nothing is trained and a size is asked: a tensor's step is proportional to its
  /// deviation^evenness, 0 to 1.
  double evenness = 0;
  /// What is bounded where nothing is trained.
  ErrorMeasure measure = ErrorMeasure::kRelative;
  /// How integers are chosen where nothing is trained.
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
  /// Pictures are moved by up to so many pixels, and mirrored half the time, anew in each epoch.
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

/// What is asked of the file. At most one is set.
struct Target {
  std::optional<double> ratio;            ///< input file bytes / output file bytes, > 0
  std::optional<std::int64_t> max_bytes;  ///< of the output file
  std::optional<double> max_drop;         ///< in the metric's unit, measured on held-back data
  /// Squared error over the squares of every tensor, above 0 and below 1; no training.
  std::optional<double> max_error;
  /// The smallest file without a loss that can be measured on held-back data; training only.
  bool no_loss = false;
};

/// Which options are the program's to choose from model, data and time; those that are not are
/// taken as they stand.
struct Choices {
  bool mode = false;           ///< residual parameters, but where rules say otherwise
  bool loss = false;           ///< train.loss and train.labels: labels, and the original's outputs
  bool epochs = false;         ///< train.epochs
  bool batch = false;          ///< train.batch
  bool learning_rate = false;  ///< bottleneck.residual_optimizer.lr
  bool step_speed = false;     ///< bottleneck.step_speed
  bool augmentation = false;   ///< train.shift and train.mirror
  bool price = false;          ///< train.rate.lambda, where a target's search begins
};

struct CompressOptions {
  std::filesystem::path output;
  bool overwrite = false;
  Target target;
  Choices choose;
  /// Minutes that all of it may take, above 0; unset: what model and data ask for, which does not
  /// depend on the machine.
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
  /// Told what concerns the run: placements, checkpoints. May be empty.
  std::function<void(const std::string&)> tell;
};

/// A line for each rule that matches no name, with the nearest names: "warning: the rule for
/// 0.weigth matches no tensor; the nearest are 0.weight, 2.weight".
/// @param names  of all tensors
std::vector<std::string> idle_rule_warnings(const std::vector<LayerRule>& rules,
                                            const std::vector<std::string>& names);

// Settings: built-in defaults < configuration file < GBCOMPRESS_* < --set < flags. One table holds
// every key with its type, default and meaning; the file, the environment, `--set`, the help text
// and docs/config.md all come from it.

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

  /// The defaults of setting_table(): residual parameters, and the program chooses what it can
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
  /// @param source  named in messages: "--epochs"
  void apply(const std::string& key, const std::string& toml_value, const std::string& source);

  /// Every key that the result depends on with its resolved value, as one JSON object; the same
  /// settings, the same text. How the run is carried out (threads, kernel, ranks, checkpoints) is
  /// not in it.
  std::string to_json() const;
  /// The same for keys that differ from their defaults only, with the version whose defaults those
  /// are: what a file remembers, in few bytes.
  std::string changes_json() const;
};

}  // namespace gbcompress
