#pragma once
/// A folder with `.gbz` files as it would be without compression: the files that they expand to in
/// their place, every other file as it is. Nothing is written. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gbcompress/expanded_files.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

struct FolderEntry {
  enum class Kind {
    kFolder,
    kFile,      ///< `source`, as it is
    kLink,      ///< `source`, a symbolic link to no file
    kExpanded,  ///< made of `source`, a `.gbz`
    kText,      ///< `source` without the members that name a `.gbz`: config.json of Transformers
  };
  Kind kind = Kind::kFolder;
  std::string name;                     ///< "" of the first one, the folder itself
  std::filesystem::path source;         ///< of a folder that a `.gbz` gives, the `.gbz`
  std::int64_t bytes = 0;               ///< 0 of folders and links; of kFile, when it was opened
  std::size_t parent = 0;               ///< of the first one, itself
  std::vector<std::size_t> children{};  ///< of a folder, in the order of their names
};

/// A tree of entries, made once: files that are added to the folder later are not in it.
///
/// A `.gbz` that is alone in its folder gives its files there, an original file under its own name.
/// Of several in one folder, each gives NAME.safetensors, NAME.gguf and so on, where NAME is that
/// of the `.gbz`, or the folder NAME/ where it gives several files. Bases of deltas are found as
/// BaseModel::beside() finds them, and one base is shared by all its deltas.
class ExpandedFolder {
 public:
  /// @param folder  or a single `.gbz`
  /// @throws Error(kNotFound) for a folder without a `.gbz`; Error(kUsage) for a `.gbz` that gives
  ///         a file of a name that is there already; Error(kLimit) above 100,000 entries;
  ///         Error(kIo); as ExpandedFiles
  ExpandedFolder(const std::filesystem::path& folder, const DecodedCache& cache);

  /// The folder itself first.
  const std::vector<FolderEntry>& entries() const noexcept;
  /// ExpandedFiles::pieces() of a kExpanded or kText entry. [thread-safe]
  /// @throws as ExpandedFiles::pieces(); Error(kUsage) for another entry
  std::vector<HeldBytes> pieces(std::size_t entry, std::int64_t offset, std::int64_t bytes) const;

 private:
  struct Impl;
  std::shared_ptr<const Impl> impl_;
};

}  // namespace gbcompress
