#include "format/folder/components.h"

#include "base/folder.h"
#include "format/folder/carried_files.h"
#include "format/folder/weight_files.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

bool is_model(const fs::path& folder) {
  return holds_weights(folder) || !artifacts_in(folder).empty();
}

/// Links to folders are not followed, so that there is no cycle.
void add_components(const fs::path& folder, const fs::path& under, std::size_t depth,
                    std::vector<fs::path>& found) {
  for (const std::string& name : names_in(folder / under)) {
    const fs::path relative = under / name;
    std::error_code ignored;
    if (name.front() == '.' || is_training_folder(name) ||
        !fs::is_directory(fs::symlink_status(folder / relative, ignored)))
      continue;
    if (is_model(folder / relative))
      found.push_back(relative);
    else if (depth + 1 < kMaxCarriedDepth)
      add_components(folder, relative, depth + 1, found);
  }
}

}  // namespace

std::vector<std::string> artifacts_in(const fs::path& folder) {
  std::vector<std::string> found;
  std::error_code ignored;
  for (const std::string& name : names_in(folder))
    if (name.ends_with(".gbz") && !fs::is_directory(folder / name, ignored)) found.push_back(name);
  return found;
}

bool is_training_folder(std::string_view name) noexcept {
  return name.starts_with("checkpoint-") || name == "runs" || name == "wandb" ||
         name == "__pycache__";
}

std::vector<fs::path> component_folders(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code ignored;
  if (fs::is_directory(folder, ignored) && !is_model(folder)) add_components(folder, {}, 0, found);
  return found;
}

}  // namespace gbcompress
