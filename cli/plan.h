#pragma once
/// The plan of a model file, for the verbs `plan` and `inspect --plan`.

#include <filesystem>

#include "command.h"
#include "gbcompress/bench.h"

namespace gbcompress::cli {

/// Plans from names and shapes alone; plugins are loaded first. Settings of the target need the
/// weights' values, and are not looked at.
ModelPlan plan_file(const Arguments& arguments, const std::filesystem::path& file);
/// --world, else `otherwise`; 1 to 4096.
int world_of(const Arguments& arguments, int otherwise);
/// Prints the plan of every parameter and, above a world of 1, owners and bytes.
void show_plan(const Arguments& arguments, const std::filesystem::path& file);

}  // namespace gbcompress::cli
