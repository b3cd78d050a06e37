#include "base/temporary_folder.h"

#include <stdlib.h>

#include <cerrno>
#include <string>
#include <system_error>

#include "gbcompress/error.h"

namespace gbcompress {

TemporaryFolder::TemporaryFolder(const std::filesystem::path& beside) {
  std::error_code ignored;
  const bool device = std::filesystem::is_other(beside, ignored);
  std::filesystem::path place =
      device ? std::filesystem::temp_directory_path() : beside.parent_path();
  if (place.empty()) place = ".";
  std::string name = (place / ".gbcompress-XXXXXX").string();
  if (!mkdtemp(name.data()))
    throw Error(Errc::kIo, place.string() + ": no temporary folder can be made there: " +
                               std::generic_category().message(errno));
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace gbcompress
