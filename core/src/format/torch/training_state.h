#pragma once
/// Names that belong to a training, not to a model.

#include <string>
#include <string_view>

namespace gbcompress {

/// A key of a checkpoint beside the model: "optimizer_state_dict", "lr_schedulers", "rng_state".
/// Too wide for a model's own modules, which may have a "scaler" or a "scheduler" with buffers.
bool is_training_key(std::string_view key);

/// A tensor's dotted name: "optimizer.state.0.step", "layers.0.exp_avg", "state.optim.x".
bool is_training_tensor(std::string_view name);

/// A usual key of the model in a checkpoint: "state_dict", "model", "net".
bool is_model_key(std::string_view key);

}  // namespace gbcompress
