#pragma once
/// A folder that lives as long as the object.

#include <filesystem>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

class TemporaryFolder {
 public:
  /// @param beside  a file that will be written: the folder is made in the same one, or in TMPDIR
  ///                where that is a device
  /// @throws Error(kIo)
  explicit TemporaryFolder(const std::filesystem::path& beside);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace gbcompress
