#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "gbcompress/registry.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

/// Folder of the running program, "" where the system does not tell.
fs::path program_folder() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return failed ? fs::path() : program.parent_path();
}

/// Folder of libgbcompress.so as it is mapped into this process.
fs::path library_folder() {
  Dl_info info{};
  if (!::dladdr(reinterpret_cast<const void*>(&PluginHost::search_path), &info) || !info.dli_fname)
    return {};
  std::error_code failed;
  const fs::path library = fs::canonical(info.dli_fname, failed);
  return failed ? fs::path() : library.parent_path();
}

/// A variable of the environment, "" where a program with raised privileges must not trust it.
std::string variable(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

}  // namespace

std::vector<fs::path> PluginHost::search_path() {
  std::vector<fs::path> result;
  const auto add = [&](const fs::path& folder) {
    if (!folder.is_absolute()) return;
    const fs::path normal = (folder / "").lexically_normal().parent_path();
    if (std::find(result.begin(), result.end(), normal) == result.end()) result.push_back(normal);
  };
  if (const fs::path folder = program_folder(); !folder.empty()) {
    add(folder / "plugins");
    add(folder / GBC_PLUGIN_DIR_FROM_PROGRAM);
  }
  if (const fs::path folder = library_folder(); !folder.empty()) {
    add(folder / "plugins");
    add(folder / GBC_PLUGIN_DIR_FROM_LIBRARY);
  }
  const std::string list = variable("GBCOMPRESS_PLUGIN_PATH");
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(':', begin), list.size());
    add(list.substr(begin, end - begin));
    begin = end + 1;
  }
  if (const fs::path data = variable("XDG_DATA_HOME"); data.is_absolute())
    add(data / "gbcompress" / "plugins");
  else if (const fs::path home = variable("HOME"); home.is_absolute())
    add(home / ".local" / "share" / "gbcompress" / "plugins");
  return result;
}

}  // namespace gbcompress
