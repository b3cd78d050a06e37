#pragma once
/// Folders of models: which files hold the weights, their name, the components of a pipeline, and
/// what goes along with the weights. No LibTorch.

#include <cstddef>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/atomic_file.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// Subfolders with a model of their own, up to four deep, of a folder that holds none itself: the
/// components of a pipeline of diffusers, adapters. Relative and sorted. Symbolic links and what
/// belongs to a training (checkpoint-500) are not looked into. Empty for a folder that holds
/// weights or a `.gbz`, and for what is no folder. @throws Error(kIo)
std::vector<std::filesystem::path> component_folders(const std::filesystem::path& folder);

/// The name of a folder's weights without suffix and number, which their `.gbz` and what it expands
/// to have too: "adapter_model", "diffusion_pytorch_model"; "model" of several files without a name
/// in common, and of pytorch_model.bin. Without weights, the name of its one `.gbz`, else "model".
/// @throws Error(kIo); Error(kUsage, kNotFound) as open_tensors() for weights that it refuses
std::string weights_name(const std::filesystem::path& folder);

/// Finds what goes along with the weights of a folder, as open_tensors() does for one: sets
/// bundle.carried, and bundle.left_out with a note for what is of the training or beyond the
/// bounds: 1,000 files of at most 64 MiB, 256 MiB together, four subfolders deep. Symbolic links
/// are taken from Hugging Face's cache alone. A note names files that are Git LFS pointers or web
/// pages. Subfolders that are models of their own are left out; component_folders() have files of
/// their own and are skipped.
/// @param whole  every file within the bounds that is no file of weights goes along, whatever its
///               name: images, training state, ".gitattributes"; hidden folders do not
/// @throws Error(kIo)
void find_carried(const std::filesystem::path& folder, TensorBundle& bundle, bool whole = false);

/// Moves the files of bundle.carried to those that exact mode keeps: the file gives back all of a
/// folder. Nothing where the bundle has no contents. @return whether it did. @throws Error(kIo)
bool keep_carried(const std::filesystem::path& folder, TensorBundle& bundle);

/// Copies of files under their own names in a folder that exists, and in subfolders, which are
/// made. Made under temporary names, so that nothing that can fail for want of space or rights is
/// left for commit(); without that, nothing stays behind. Symbolic links in the folder are never
/// written through; a file that is already the one to be copied is left alone. Two members of the
/// config.json of Transformers tell its loader of a `.gbz`: they are added where `artifact` names
/// one, and removed otherwise; all other bytes are the source's.
class CarriedCopies {
 public:
  /// @param source    the folder that `files` are relative to
  /// @param artifact  name of the `.gbz` that holds the weights beside the copies; "" without one
  /// @throws Error(kExists) for a file that is there, unless `overwrite`; Error(kIo) for a link in
  ///         its place or in that of a subfolder, and as AtomicFile; Error(kLimit) for a file above
  ///         64 MiB; Error(kUsage) for a path that leaves the folder
  CarriedCopies(const std::filesystem::path& source, std::span<const std::filesystem::path> files,
                const std::filesystem::path& folder, bool overwrite, std::string artifact = {});
  ~CarriedCopies();
  CarriedCopies(const CarriedCopies&) = delete;
  CarriedCopies& operator=(const CarriedCopies&) = delete;
  /// @return how many files were copied. @throws as AtomicFile::commit()
  std::size_t commit();

 private:
  void add(const std::filesystem::path& source, const std::filesystem::path& relative,
           const std::filesystem::path& folder, bool overwrite);
  void forget();

  std::string artifact_;
  std::vector<std::filesystem::path> made_;  ///< subfolders, until commit()
  std::vector<std::unique_ptr<AtomicFile>> copies_;
};

}  // namespace gbcompress
