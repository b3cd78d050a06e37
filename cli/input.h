#pragma once
/// The model of a run.

#include <cstdint>
#include <memory>

#include "command.h"
#include "gbcompress/model.h"

namespace gbcompress::cli {

/// The model to compress, and the bytes of its file; a new one has those of its tensors.
struct Input {
  std::unique_ptr<Model> model;
  std::int64_t bytes = 0;
};
/// MODEL, or a new one with --from-scratch. @throws Error(kUsage) and as open_model()
Input open_input(const Arguments& arguments, const PluginHost& host, std::uint64_t seed);

/// The model and what is beside it, moved to the device of the settings. Batches too.
/// @param group  of the run: several ranks compute on the processor
/// @throws Error(kUsage) as device_named(), and for a device with several ranks
void use_device(const Settings& settings, const Group* group, Model& model, Model* teacher,
                Data* data);

/// @param wanted  0: one thread a core, one alone for small models
void set_threads(std::int64_t wanted, const Model& model);

}  // namespace gbcompress::cli
