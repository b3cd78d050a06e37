#include "base/folder.h"

#include <dirent.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string_view>

#include "gbcompress/error.h"

namespace gbcompress {

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  const auto close = [](DIR* entries) { ::closedir(entries); };
  const std::unique_ptr<DIR, decltype(close)> entries(::opendir(folder.c_str()), close);
  std::vector<std::string> names;
  errno = entries ? 0 : errno;
  while (const dirent* entry = entries ? ::readdir(entries.get()) : nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
    errno = 0;
  }
  if (const int error = errno; error != 0)
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be read: " + std::strerror(error));
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace gbcompress
