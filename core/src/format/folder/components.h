#pragma once
/// Subfolders that hold a model of their own, as those of a pipeline do.

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/model_folders.h"  // component_folders()

namespace gbcompress {

/// Names of the `.gbz` files of a folder, sorted. @throws Error(kIo)
std::vector<std::string> artifacts_in(const std::filesystem::path& folder);

/// Whether a subfolder belongs to a training and not to its model: "checkpoint-500", "runs".
bool is_training_folder(std::string_view name) noexcept;

}  // namespace gbcompress
