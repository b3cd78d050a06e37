#pragma once
/// Options of a GenomicBottleneck: what the file holds of each parameter, g-nets, the rate term. No
/// LibTorch.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/gnet.h"
#include "gbcompress/schedule.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class GenomicBottleneck;
class Group;

/// Where g-nets are computed when there are several ranks. Both give the same result but for
/// rounding.
enum class Placement : std::uint8_t {
  kAuto,        ///< per bank, from what computing and sending takes on these machines
  kOwner,       ///< each g-net on one rank; gradients of weights travel there, weights travel back
  kReplicated,  ///< every g-net on every rank; gradients of g-net parameters travel
};
std::string_view placement_name(Placement placement) noexcept;  ///< "auto", "owner", "replicated"

/// What a file holds of a trainable parameter.
enum class WeightMode : std::uint8_t {
  kGenerated,  ///< g-nets where a layer type takes it and they are smaller, else the exact values
  kQuantized,  ///< integers times a step size, entropy-coded, trained with the rate in the loss
  kExact,      ///< the exact values
};
std::string_view mode_name(WeightMode mode) noexcept;  ///< "generated", "quantized", "exact"

/// Overrides for the parameters whose names match; of several matching rules the last one wins, key
/// by key. From `[[layer]]` tables of the configuration.
struct LayerRule {
  std::string match;  ///< full name, '*' stands for any characters: "encoder.*.weight"
  std::optional<std::string> type;  ///< a layer type's id, or "plain" to leave it out
  std::optional<WeightMode> mode;
  /// Of quantized matrices without training: their own size, bits per weight, or largest relative
  /// squared error, whatever the target of the file is. Without a mode they set kQuantized.
  std::optional<double> bits, max_error;
  std::optional<std::int64_t> tile_weights;
  std::optional<double> ratio;
  std::optional<std::vector<std::int64_t>> hidden;
  std::optional<AxisCode> row_code, col_code;
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
  /// computes all of them.
  Coding coding = Coding::kI8;
  /// Rows of quantized matrices (outputs) have step sizes of their own instead of one per tensor.
  bool row_steps = false;
  /// Learning rate of the logarithms of step sizes over that of weights, above 0: an optimizer
  /// moves either by about its learning rate, and step sizes may change by octaves.
  double step_speed = 3;
  /// Of quantized weights and their step sizes; the weight decay is that of the weights alone.
  AdamWOptions quantized_optimizer = {.lr = 2e-3, .beta2 = 0.999, .weight_decay = 0};
  RateOptions rate;
  /// Float32 parameters of mode kGenerated that have no g-nets (biases, norms, small matrices) are
  /// rounded to short floats (short_floats(), recipe.h) by finish(), and entropy-coded.
  bool code_plain = false;
  /// Bytes of all tensors over bytes of the file, above 1: the constructor takes the recipe of
  /// recipe.h. It chooses generator, widths, rank and position codes if they have their defaults,
  /// the sizes of the g-nets, learning rate and weight decay of gnet_optimizer if they have their
  /// defaults, the schedule if it is unset, and code_plain.
  std::optional<double> target_ratio;
  /// Factor of all learning rates over `steps` calls of step(), beside its lr_factor: a schedule
  /// of steps. Unset, or without steps: 1.
  std::optional<Schedule> schedule;
  /// Calls of step() in the whole run, for the schedule; later ones keep the last factor.
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  std::string kernel = "fused";            ///< or "cuda", "reference"
  Placement placement = Placement::kAuto;  ///< with one rank nothing to choose
  /// What the file says of itself, which is part of its size: what `--arch` is, and the settings as
  /// JSON. Small files of integers go without the settings.
  std::string arch, settings;
};

/// What the file holds of the parameter `name`, after all rules.
WeightMode mode_of(const std::string& name, const BottleneckOptions& options);

}  // namespace gbcompress
