#pragma once
/// The model of a run.

#include <c10/core/Device.h>

#include <cstdint>
#include <memory>

#include "command.h"
#include "gbcompress/launch.h"
#include "gbcompress/model.h"

namespace gbcompress::cli {

/// The model to compress, and the bytes of its file; a new one has those of its tensors.
struct Input {
  std::unique_ptr<Model> model;
  std::int64_t bytes = 0;
};
/// MODEL, or a new one with --from-scratch. @throws Error(kUsage) and as open_model()
Input open_input(const Arguments& arguments, const PluginHost& host, std::uint64_t seed);

/// The device of the settings; of "cuda" and several ranks, the GPU of the rank's place on its
/// machine. @throws Error(kUsage) as device_named() and pick_gpu(), and for one GPU for all ranks
at::Device device_of_rank(const Settings& settings, const Launch& launch);

/// The model and what is beside it, moved to the rank's device. Batches too.
/// @throws Error(kUsage) as device_of_rank()
void use_device(const Settings& settings, const Launch& launch, Model& model, Model* teacher,
                Data* data);

/// @param wanted  0: one thread a core, one alone for small models
void set_threads(std::int64_t wanted, const Model& model);

}  // namespace gbcompress::cli
