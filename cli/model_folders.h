#pragma once
/// A folder of Hugging Face's gives a folder: `compress FOLDER -o OUT/` writes OUT/model.gbz and
/// copies the files of configuration and tokenizer, and `expand OUT/ -o BACK/` gives
/// BACK/model.safetensors with them.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// What -o names: a file, or a folder with a file in it and what goes along.
class FolderOutput {
 public:
  /// A folder is written where `source` is one, and `given` is one or ends with a slash.
  /// @param source  what is read
  /// @param given   -o
  /// @param name    of the file in a folder
  FolderOutput(const std::filesystem::path& source, std::string given, const std::string& name);
  /// What begin() made is gone unless finish() was called.
  ~FolderOutput();
  FolderOutput(const FolderOutput&) = delete;
  FolderOutput& operator=(const FolderOutput&) = delete;

  /// The file to write.
  const std::string& file() const noexcept { return file_; }
  /// Tries every path that will be written, and leaves nothing behind. @throws as check_writable()
  void check(bool overwrite) const;
  /// Makes the folder where it is missing and copies what goes along under temporary names.
  /// @throws as CarriedCopies, and Error(kIo) for a folder that cannot be made
  void begin(bool overwrite);
  /// Once the file is there. @return how many files were copied beside it. @throws as CarriedCopies
  std::size_t finish();
  /// Says so where files of the source's folder stay behind.
  void say_what_stays(const Arguments& arguments) const;

 private:
  std::filesystem::path folder_;  ///< "" for a file alone
  std::string file_;
  std::vector<std::filesystem::path> carried_;
  std::optional<CarriedCopies> copies_;
  bool made_ = false;  ///< the folder, by begin()
};

/// The one `.gbz` of a folder, or the file itself.
/// @throws Error(kNotFound) for a folder without any; Error(kUsage) for one with several
std::filesystem::path artifact_in(const std::filesystem::path& path);

}  // namespace gbcompress::cli
