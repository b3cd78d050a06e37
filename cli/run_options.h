#pragma once
/// What `compress` and `sweep` share: the options of a run and its settings.

#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "gbcompress/options.h"
#include "gbcompress/ranks.h"

namespace gbcompress::cli {

/// --arch, --data, --config, --set and the like; nothing about targets and outputs.
void add_run_options(boost::program_options::options_description& into);

/// Defaults < file < environment < --set.
Settings settings_below_flags(const Arguments& arguments);
/// Then those of the flags (option, key) that were given, beside --epochs and --seed. The loss is
/// Loss::kWeights where there are no data and `--set` gives none.
using FlagKeys = std::vector<std::pair<const char*, const char*>>;
void apply_flags(const Arguments& arguments, const FlagKeys& own, Settings& settings);

/// What settings.given holds beside what this verb reads.
/// @param read  sections "data." and keys
void say_unused(const Arguments& arguments, const Settings& settings,
                const std::vector<std::string>& read, const std::string& verb);

/// What of the call decides which settings have an effect.
SettingsUse use_of(const Arguments& arguments);

/// @throws Error(kUsage) where neither MODEL nor --from-scratch is given
void need_model(const Arguments& arguments, const std::string& verb);
/// Whether the given model's outputs are part of the loss, or may become so, so that a second copy
/// of it is needed.
bool teaches(const CompressOptions& options, const Arguments& arguments);

/// Every setting that the result depends on, by name, so that a checkpoint of others is refused.
CheckpointFacts setting_facts(const std::string& settings);

}  // namespace gbcompress::cli
