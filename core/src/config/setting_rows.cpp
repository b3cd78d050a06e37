#include "config/setting_rows.h"

namespace gbcompress {
namespace {

// One accessor for reading and for writing.
#define GBC_FIELD(path) \
  [](auto& s) -> auto& { return s.path; }

constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
using S = Settings;
using L = LayerRule;

bool not_negative(double x) { return x >= 0; }
bool positive(double x) { return x > 0; }
bool any(double) { return true; }
bool zero_to_one(double x) { return x >= 0 && x <= 1; }
bool own_bits(double x) { return x >= 0.1 && x <= 32; }
bool inside_one(double x) { return x > 0 && x < 1; }
bool below_one(double x) { return x >= 0 && x < 1; }
bool to_a_day(double x) { return x >= 0.1 && x <= 86'400; }

const char* const kNotNegative = "a number of at least 0";
const char* const kPositive = "a number above 0";
const char* const kBelowOne = "a number from 0 to below 1";

template <typename Enum>
std::vector<std::pair<std::string, Enum>> names(std::string_view (*name)(Enum) noexcept,
                                                std::initializer_list<Enum> values) {
  std::vector<std::pair<std::string, Enum>> result;
  for (const Enum value : values) result.emplace_back(name(value), value);
  return result;
}

/// A code as code_text() writes it.
template <typename T, typename Field>
SettingRow<T> code_row(std::string key, std::string help, Field field) {
  return {std::move(key),
          "string",
          std::move(help),
          "binary, gray, one_hot, fourier:PAIRS, pixel:SIDExSIDE:WAVES or latent:NUMBERS",
          {},
          [=](T& target, const SettingValue& value) {
            const auto* text = std::get_if<std::string>(&value);
            const auto code = text ? parse_code(*text) : std::nullopt;
            if (code) field(target) = *code;
            return code.has_value();
          },
          [=](const T& source) {
            const std::optional<AxisCode> code = field(source);
            return code ? SettingValue(code_text(*code)) : SettingValue();
          }};
}

auto generators() {
  return names(generator_name,
               {Generator::kGNet, Generator::kStochastic, Generator::kLowRank, Generator::kXox});
}

auto modes() {
  return names(mode_name, {WeightMode::kQuantized, WeightMode::kGenerated, WeightMode::kExact});
}

/// A key that is the program's to choose until somebody sets it.
template <typename Flag>
SettingRow<S> chosen_row(SettingRow<S> row, Flag chosen) {
  row.get = [plain = row.get, chosen](const S& settings) {
    return chosen(settings) ? SettingValue() : plain(settings);
  };
  row.set = [plain = row.set, chosen](S& settings, const SettingValue& value) {
    if (!plain(settings, value)) return false;
    chosen(settings) = false;
    return true;
  };
  return row;
}

/// "auto" beside the modes.
SettingRow<S> mode_row() {
  auto row = choice_row<S>("weights.mode", modes(),
                           "What the file holds of trainable parameters: integers times a step "
                           "size, g-nets that generate them, or their exact values ([[layer]] "
                           "rules override it); auto: quantized, and g-nets where a rule "
                           "names them",
                           GBC_FIELD(compress.bottleneck.mode));
  row.accepts = "one of auto, " + row.accepts.substr(std::string("one of ").size());
  row.choices.insert(row.choices.begin(), "auto");
  row.get = [plain = row.get](const S& settings) {
    return settings.compress.choose.mode ? SettingValue(std::string("auto")) : plain(settings);
  };
  row.set = [plain = row.set](S& settings, const SettingValue& value) {
    const auto* text = std::get_if<std::string>(&value);
    const bool chosen = text && *text == "auto";
    if (!chosen && !plain(settings, value)) return false;
    if (chosen) settings.compress.bottleneck.mode = WeightMode::kQuantized;
    settings.compress.choose.mode = chosen;
    return true;
  };
  return row;
}

std::vector<SettingRow<S>> gnet_rows() {
  auto hidden = widths_row<S>(
      "gnet.hidden", "Widths of the hidden layers; unset, the recipe chooses them for the target",
      GBC_FIELD(compress.bottleneck.gnet.hidden));
  hidden.get = [plain = hidden.get](const S& settings) {
    return settings.compress.hidden_given ? plain(settings) : SettingValue();
  };
  hidden.set = [plain = hidden.set](S& settings, const SettingValue& value) {
    if (!plain(settings, value)) return false;
    settings.compress.hidden_given = true;
    return true;
  };
  return {
      integer_row<S>(
          "gnet.tile_weights", 1, std::int64_t{1} << 28,
          "Weights of one tile; with a target size the recipe chooses the tiles, unless a "
          "[[layer]] rule fixes them",
          GBC_FIELD(compress.bottleneck.gnet.tile_weights)),
      hidden,
      chosen_row(choice_row<S>(
                     "gnet.generator", generators(),
                     "How a tile is made (an MLP on position codes, one that draws around its "
                     "mean, a product of two matrices, a product of three); unset, low_rank for a "
                     "target size without other keys of g-nets, else gnet",
                     GBC_FIELD(compress.bottleneck.gnet.generator)),
                 GBC_FIELD(compress.choose.generator)),
      integer_row<S>("gnet.rank", 0, 65'536,
                     "Rank of low_rank and xox; 0, and 8 with a target size: the size sets it, "
                     "and whole matrices are tiles",
                     GBC_FIELD(compress.bottleneck.gnet.rank)),
      code_row<S>("gnet.row_code",
                  "How a g-net sees the row of a weight; unset, the layer type chooses",
                  GBC_FIELD(compress.bottleneck.gnet.row_code)),
      code_row<S>("gnet.col_code", "The same for columns",
                  GBC_FIELD(compress.bottleneck.gnet.col_code)),
      integer_row<S>("gnet.min_elements", 0, kAny,
                     "Parameters with fewer elements are stored exactly",
                     GBC_FIELD(compress.bottleneck.min_elements)),
  };
}

std::vector<SettingRow<S>> optim_rows() {
  return {
      chosen_row(
          number_row<S>("optim.lr", kNotNegative, not_negative,
                        "Learning rate of the g-nets; unset, 0.03 of products for a target size, "
                        "else 0.01",
                        GBC_FIELD(compress.bottleneck.gnet_optimizer.lr)),
          GBC_FIELD(compress.choose.gnet_lr)),
      number_row<S>("optim.beta2", kBelowOne, below_one, "Decay of AdamW's second moment",
                    GBC_FIELD(compress.bottleneck.gnet_optimizer.beta2)),
      chosen_row(number_row<S>("optim.weight_decay", kNotNegative, not_negative,
                               "Decoupled weight decay of the g-nets; unset, 0.01 of products for "
                               "a target size, else 0.1",
                               GBC_FIELD(compress.bottleneck.gnet_optimizer.weight_decay)),
                 GBC_FIELD(compress.choose.gnet_decay)),
      number_row<S>("optim.plain_lr", kNotNegative, not_negative,
                    "Learning rate of the parameters that no g-net generates",
                    GBC_FIELD(compress.bottleneck.plain_optimizer.lr)),
      number_row<S>("optim.plain_weight_decay", kNotNegative, not_negative,
                    "Weight decay of those, decoupled with AdamW",
                    GBC_FIELD(compress.bottleneck.plain_optimizer.weight_decay)),
      choice_row<S>("optim.plain_optimizer",
                    names(optimizer_name, {OptimizerRule::kAdamW, OptimizerRule::kSgd}),
                    "Optimizer of those: AdamW, or stochastic gradient descent with momentum",
                    GBC_FIELD(compress.bottleneck.plain_optimizer.optimizer)),
      number_row<S>("optim.plain_momentum", kBelowOne, below_one,
                    "Momentum of sgd; decay of the first moment of adamw",
                    GBC_FIELD(compress.bottleneck.plain_optimizer.momentum)),
      number_row<S>("optim.plain_beta2", kBelowOne, below_one,
                    "Decay of the second moment of adamw of those",
                    GBC_FIELD(compress.bottleneck.plain_optimizer.beta2)),
      choice_row<S>(
          "optim.schedule",
          names(schedule_name, {Schedule::kConstant, Schedule::kCosine, Schedule::kOneCycle,
                                Schedule::kStep, Schedule::kEpochCosine}),
          "How the learning rates change: over the steps, or (step, epoch_cosine) once per epoch",
          GBC_FIELD(compress.train.schedule)),
      integer_row<S>("optim.schedule_epochs", 0, 1'000'000,
                     "step: epochs between two reductions (0: 30); epoch_cosine: epochs from the "
                     "highest to the lowest rate (0: all)",
                     GBC_FIELD(compress.train.schedule_epochs)),
      number_row<S>("optim.schedule_factor", "a number from 0 to 1", zero_to_one,
                    "step: factor of a reduction (unset: 0.1); epoch_cosine: the lowest rate over "
                    "the highest (unset: 0)",
                    GBC_FIELD(compress.train.schedule_factor)),
  };
}

std::vector<SettingRow<S>> run_rows() {
  auto seed = integer_row<S>("train.seed", 0, kAny, "The same seed gives the same file",
                             GBC_FIELD(compress.train.seed));
  seed.set = [](S& settings, const SettingValue& value) {
    const auto* whole = std::get_if<std::int64_t>(&value);
    if (!whole || *whole < 0) return false;
    settings.compress.train.seed = static_cast<std::uint64_t>(*whole);
    settings.compress.bottleneck.seed = static_cast<std::uint64_t>(*whole);
    return true;
  };
  return {
      chosen_row(choice_row<S>(
                     "train.loss", names(loss_name, {Loss::kTask, Loss::kDistill, Loss::kWeights}),
                     "What training minimizes (the labels' cross-entropy, the distance to the "
                     "original's outputs, the distance to its weights); unset, the program chooses",
                     GBC_FIELD(compress.train.loss)),
                 GBC_FIELD(compress.choose.loss)),
      mode_row(),
      chosen_row(number_row<S>(
                     "rate.lambda", kPositive, positive,
                     "Rate weight of quantized weights and coded g-nets: training minimizes loss + "
                     "lambda * bits / predictions of the training split; with a target, the "
                     "search starts here; unset, the program searches",
                     GBC_FIELD(compress.train.rate.lambda)),
                 GBC_FIELD(compress.choose.lambda)),
      choice_row<S>("rate.measure",
                    names(measure_name, {ErrorMeasure::kRelative, ErrorMeasure::kTotal}),
                    "Data-free: relative, the relative error of each tensor; total, one step size "
                    "for all tensors and the sum of all squared errors, for comparisons",
                    GBC_FIELD(compress.train.rate.measure)),
      choice_row<S>("rate.quantizer",
                    names(quantizer_name, {Quantizer::kNearest, Quantizer::kTrellis}),
                    "Untrained quantized weights: integers are the nearest, or trellis-coded "
                    "(smaller at the same error)",
                    GBC_FIELD(compress.train.rate.quantizer)),
      integer_row<S>(
          "rate.calibration", 0, 1 << 20,
          "Calibration set size when no training is requested (0 epochs): training samples "
          "for the second-order statistics and the batch norms; 0: data-free",
          GBC_FIELD(compress.train.rate.calibration)),
      chosen_row(number_row<S>("rate.lr", kPositive, positive,
                               "Learning rate of quantized weights; unset, the program chooses",
                               GBC_FIELD(compress.bottleneck.quantized_optimizer.lr)),
                 GBC_FIELD(compress.choose.learning_rate)),
      text_row<S>("strategy.name",
                  "How a batch becomes gradients: backprop, or a strategy of a plugin",
                  GBC_FIELD(compress.train.strategy.name)),
      text_row<S>("strategy.options", "Options of that strategy, KEY=VALUE separated by blanks",
                  GBC_FIELD(compress.train.strategy.options)),
      chosen_row(integer_row<S>("train.epochs", 0, 1'000'000,
                                "Passes over the training split; unset, the program chooses",
                                GBC_FIELD(compress.train.epochs)),
                 GBC_FIELD(compress.choose.epochs)),
      chosen_row(integer_row<S>("train.batch", 1, std::int64_t{1} << 24,
                                "Samples of one step; unset, the program chooses",
                                GBC_FIELD(compress.train.batch)),
                 GBC_FIELD(compress.choose.batch)),
      integer_row<S>("train.measure_epochs", 0, 1'000'000,
                     "Epochs between two measurements of the test split while training, for the "
                     "event files and the report; 0: none",
                     GBC_FIELD(compress.train.measure_epochs)),
      number_row<S>("train.labels", kBelowOne, below_one,
                    "With the loss distill: the share of the labels' cross-entropy",
                    GBC_FIELD(compress.train.labels)),
      chosen_row(
          integer_row<S>("train.shift", 0, 1024,
                         "Random shift of images in each epoch, pixels at most; unset, the program "
                         "chooses",
                         GBC_FIELD(compress.train.shift)),
          GBC_FIELD(compress.choose.augmentation)),
      chosen_row(
          choice_row<S>("train.flip",
                        std::vector<std::pair<std::string, bool>>{{"no", false}, {"yes", true}},
                        "Random horizontal flip of images; unset, the program chooses",
                        GBC_FIELD(compress.train.flip)),
          GBC_FIELD(compress.choose.augmentation)),
      choice_row<S>(
          "train.effort", names(effort_name, {Effort::kFast, Effort::kBalanced, Effort::kMax}),
          "How far to go for a target size with data: fast never trains; balanced trains "
          "only if calibration has a measurable quality drop; max trains; unset: balanced "
          "if the program chooses the training, else max",
          GBC_FIELD(compress.effort)),
      number_row<S>("train.minutes", kPositive, positive,
                    "Time limit of the run in minutes; unset, model and data decide, the same on "
                    "every machine",
                    GBC_FIELD(compress.minutes)),
      seed,
      text_row<S>("train.device",
                  "Where the model computes, with data: cpu, cuda, cuda:N; g-nets, integers and "
                  "optimizers of both stay on the processor",
                  GBC_FIELD(device)),
      integer_row<S>("train.threads", 0, 4096,
                     "Worker threads; 0: one per core, one below 200,000 parameters",
                     GBC_FIELD(threads)),
      integer_row<S>(
          "train.shards", 0, 4096,
          "A power of two: shards of a batch, and any number of ranks gives the same file; "
          "0: one shard per rank",
          GBC_FIELD(compress.train.shards)),
      choice_row<S>(
          "ranks.placement",
          names(placement_name, {Placement::kAuto, Placement::kOwner, Placement::kReplicated}),
          "Where g-nets are computed (chosen by measured cost, each on one rank, each on "
          "every rank)",
          GBC_FIELD(compress.bottleneck.placement)),
      choice_row<S>("ranks.backend",
                    std::vector<std::pair<std::string, std::string>>{
                        {"auto", "auto"}, {"gloo", "gloo"}, {"nccl", "nccl"}},
                    "Communication: gloo through the host, nccl through GPUs; auto: nccl where the "
                    "model computes on a GPU",
                    GBC_FIELD(ranks.backend)),
      text_row<S>("ranks.listen",
                  "Where to accept connections of other machines: an address, a network "
                  "interface, or any; unset: from this machine only",
                  GBC_FIELD(ranks.listen)),
      number_row<S>("ranks.timeout", "a number from 0.1 to 86400", to_a_day,
                    "Seconds to wait for another process", GBC_FIELD(ranks.timeout)),
      integer_row<S>("checkpoint.every_steps", 0, kAny,
                     "Steps between checkpoints; 0: none by steps",
                     GBC_FIELD(compress.checkpoints.every_steps)),
      number_row<S>("checkpoint.every_minutes", kNotNegative, not_negative,
                    "Minutes between checkpoints; 0: none by time",
                    GBC_FIELD(compress.checkpoints.every_minutes)),
      chosen_row(choice_row<S>(
                     "artifact.coding",
                     names(coding_name, {Coding::kF32, Coding::kF16, Coding::kI8, Coding::kCoded}),
                     "Storage of the g-nets' parameters; coded: quantized in training, "
                     "entropy-coded, with the rate weight rate.lambda; unset, coded if training "
                     "with data makes a file more than 50x smaller, else int8",
                     GBC_FIELD(compress.bottleneck.coding)),
                 GBC_FIELD(compress.choose.coding)),
  };
}

std::vector<SettingRow<S>> data_rows() {
  return {
      numbers_row<S>("data.mean", "a list of numbers", any,
                     "Subtracted from each channel; empty, the default of the data set",
                     GBC_FIELD(data.mean)),
      numbers_row<S>("data.std", "a list of numbers above 0", positive,
                     "Divisor of each channel; empty, the default of the data set",
                     GBC_FIELD(data.std)),
      integer_row<S>("data.context", 1, 65'536, "Characters per window of text",
                     GBC_FIELD(data.context)),
  };
}

}  // namespace

const std::vector<SettingRow<Settings>>& setting_rows() {
  static const auto rows = [] {
    std::vector<SettingRow<S>> all;
    for (auto part : {gnet_rows(), optim_rows(), run_rows(), target_rows(), data_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

const std::vector<SettingRow<LayerRule>>& layer_rows() {
  static const std::vector<SettingRow<L>> rows = {
      text_row<L>("match", "Full name of the parameters; '*' stands for any characters",
                  GBC_FIELD(match)),
      text_row<L>("type", "A layer type's id for the g-nets of the parameter, or plain for none",
                  GBC_FIELD(type)),
      choice_row<L>("mode", modes(), "What the file holds of the parameter", GBC_FIELD(mode)),
      number_row<L>("bits", "a number from 0.1 to 32", own_bits,
                    "Size of the quantized matrix, bits per weight, whatever the target of the "
                    "file is; what is left of that is for the others",
                    GBC_FIELD(bits)),
      number_row<L>("max_error", "a number above 0 and below 1", inside_one,
                    "Largest relative squared error of the quantized matrix, whatever the target "
                    "of the file is",
                    GBC_FIELD(max_error)),
      integer_row<L>("tile_weights", 1, std::int64_t{1} << 28, "Weights of one tile",
                     GBC_FIELD(tile_weights)),
      number_row<L>("ratio", kPositive, positive,
                    "Weights for each g-net parameter; sets the tiles' size", GBC_FIELD(ratio)),
      widths_row<L>("hidden", "Widths of the hidden layers", GBC_FIELD(hidden)),
      choice_row<L>("generator", generators(), "How a tile is made", GBC_FIELD(generator)),
      integer_row<L>("rank", 1, 65'536, "Rank of low_rank and xox", GBC_FIELD(rank)),
      code_row<L>("row_code", "How a g-net sees the row of a weight", GBC_FIELD(row_code)),
      code_row<L>("col_code", "The same for columns", GBC_FIELD(col_code)),
  };
  return rows;
}

}  // namespace gbcompress
