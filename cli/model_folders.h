#pragma once
/// Where a model's file goes: a file, a folder, or standard output. A folder of Hugging Face's
/// gives a folder: `compress FOLDER -o OUT/` writes OUT/NAME.gbz, where NAME is that of its weights
/// (weights_name()), and copies the files of configuration and tokenizer, and `expand OUT/ -o
/// BACK/` gives BACK/NAME.safetensors with them.

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "command.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {

/// Whether a folder is taken as a whole: it is compressed exactly, or it has a `.gbz` that keeps
/// its original files. @throws as originals_of()
bool takes_whole_folder(const Arguments& arguments, const std::filesystem::path& source);

/// What -o names.
class ModelOutput {
 public:
  /// A folder is written where -o is one or ends with a slash, and of a folder or of a file that
  /// holds several also where no file has that name and it ends as none of a model's files does.
  /// `-` and devices are a file in TMPDIR that finish() copies there.
  /// @param source  what is read; "" for a new model
  /// @param suffix  of the file in a folder: ".gbz"
  /// @param name    of the file in a folder, with its suffix, instead of that of the weights; or ""
  /// @throws Error(kIo) where TMPDIR cannot be written
  ModelOutput(const Arguments& arguments, const std::filesystem::path& source,
              const std::string& suffix, const std::string& name = {});
  /// What begin() made is gone unless finish() was called.
  ~ModelOutput();
  ModelOutput(const ModelOutput&) = delete;
  ModelOutput& operator=(const ModelOutput&) = delete;

  /// The file to write; "" where there is no -o.
  const std::string& file() const noexcept { return file_; }
  /// Standard output, a device or a pipe: there is no place beside it.
  bool is_stream() const noexcept { return stream_; }
  /// -o names a folder, which all files of a model go to.
  bool in_folder() const noexcept { return !folder_.empty() && !stream_; }
  /// For messages and results: "-" for standard output.
  std::string name() const { return stream_ ? sink_ : file_; }
  std::string shown() const;
  /// Tries every path that will be written, and leaves nothing behind.
  /// @throws Error(kUsage) for a path that is read too; as check_writable()
  void check() const;
  /// Makes the folder where it is missing and copies what goes along under temporary names.
  /// @throws as CarriedCopies, and Error(kIo) for a folder that cannot be made
  void begin();
  /// Once the file is there. @return how many files were copied beside it. @throws as
  /// CarriedCopies; Error(kIo) where standard output cannot be written
  std::size_t finish();
  /// Says so where files of the source's folder stay behind.
  void say_what_stays() const;

 private:
  const Arguments& arguments_;
  bool overwrite_, stream_ = false;
  std::string sink_;                       ///< of a stream: "-", or the device
  std::filesystem::path source_, folder_;  ///< folder_: "" for a file alone
  std::string file_;
  std::string artifact_;  ///< name of the `.gbz` in a folder; "" for files of other kinds
  std::vector<std::filesystem::path> carried_;
  std::optional<CarriedCopies> copies_;
  bool made_ = false;  ///< the folder, by begin() or for a stream
};

}  // namespace gbcompress::cli
