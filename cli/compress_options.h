#pragma once

#include "command.h"
#include "gbcompress/options.h"
#include "gbcompress/plan.h"

namespace gbcompress::cli {

/// The settings of a call of `compress`: defaults < file < environment < --set < flags, and the
/// target that holds where none is given. @throws Error(kUsage, kConfig)
Settings compress_settings(const Arguments& arguments);
/// Whether --data names inputs made from the model: "synthetic", "synthetic:3x224x224".
bool is_synthetic(const Arguments& arguments);
/// The methods of a call of `compress`, from its options alone.
CompressionPlan request_plan(const Arguments& arguments, const Settings& settings);
/// "ratio 10 (default)" where no target was given and one holds; else "".
std::string default_target_text(const Settings& settings);
/// A line for each outdated name, and one that names what was given without an effect: each once,
/// however often it is called.
std::vector<std::string> compress_notes(const Arguments& arguments, const Settings& settings);

}  // namespace gbcompress::cli
