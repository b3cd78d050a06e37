#pragma once
/// Names that belong to a training, not to a model.

#include <string>
#include <string_view>

namespace gbcompress {

/// A key of a checkpoint beside the model: "optimizer_state_dict", "lr_schedulers", "rng_state".
/// Too wide for a model's own modules, which may have a "scaler" or a "scheduler" with buffers.
bool is_training_key(std::string_view key);

/// A tensor's dotted name that has the layout of an optimizer's state dict:
/// "optimizer.state.0.exp_avg", "optimizer_states.1.state.0.step". A module named "optimizer" is a
/// module.
bool is_training_tensor(std::string_view name);

/// A key of the running average of a model's weights: "ema", "model_ema".
bool is_average_key(std::string_view key);

/// A usual key of the model in a checkpoint: "state_dict", "model", "net".
bool is_model_key(std::string_view key);

}  // namespace gbcompress
