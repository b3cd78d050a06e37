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

/// @param wanted  0: one thread a core, one alone for small models
void set_threads(std::int64_t wanted, const Model& model);

}  // namespace gbcompress::cli
