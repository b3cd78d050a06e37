#pragma once
/// What `compress` and `sweep` share: the options of a run, its settings, its model.

#include <cstdint>
#include <memory>
#include <string>

#include "command.h"
#include "gbcompress/config.h"
#include "gbcompress/model.h"

namespace gbcompress::cli {

/// --arch, --data, --loss, --config, --set and the like; nothing about targets and outputs.
void add_run_options(boost::program_options::options_description& into);

/// Defaults < file < environment < --set.
Settings settings_below_flags(const Arguments& arguments);
/// Then those of the flags (option, key) that were given, beside --loss, --epochs and --seed. The
/// loss is Loss::kWeights where there is neither data nor --loss.
using FlagKeys = std::vector<std::pair<const char*, const char*>>;
void apply_flags(const Arguments& arguments, const FlagKeys& own, Settings& settings);

/// The model to compress, and the bytes of its file; a new one has those of its tensors.
struct Input {
  std::unique_ptr<Model> model;
  std::int64_t bytes = 0;
};
/// @throws Error(kUsage) where neither MODEL nor --from-scratch is given
void need_model(const Arguments& arguments, const std::string& verb);
/// MODEL, or a new one with --from-scratch. @throws Error(kUsage) and as open_model()
Input open_input(const Arguments& arguments, const PluginHost& host, std::uint64_t seed);

/// @param wanted  0: one thread a core, one alone for small models
void set_threads(std::int64_t wanted, const Model& model);

/// Every setting that the result depends on, by name, so that a checkpoint of others is refused.
CheckpointFacts setting_facts(const std::string& settings);

}  // namespace gbcompress::cli
