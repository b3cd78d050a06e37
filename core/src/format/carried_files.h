#pragma once
/// Which files of a folder go along with its weights, and copies of them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/file.h"
#include "base/internal.h"
#include "format/tensor_bundle.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr std::uint64_t kMaxCarriedFile = 64 << 20;    ///< bytes
inline constexpr std::uint64_t kMaxCarriedFiles = 256 << 20;  ///< bytes, all together

/// Sets bundle.carried, and bundle.left_out with a note for what is of the training.
void find_carried(const std::filesystem::path& folder, TensorBundle& bundle);

/// Copies of files under their own names in a folder that exists. Made under temporary names, so
/// that nothing that can fail for want of space or rights is left for commit(); without that,
/// nothing stays behind. Symbolic links in the folder are never written through; a file that is
/// already the one to be copied is left alone.
class CarriedCopies {
 public:
  /// @throws Error(kExists) for a file that is there, unless `overwrite`; Error(kIo) for a link in
  ///         its place, and as AtomicFile; Error(kLimit) for a file above kMaxCarriedFile
  CarriedCopies(std::span<const std::filesystem::path> files, const std::filesystem::path& folder,
                bool overwrite);
  /// @return how many files were copied. @throws as AtomicFile::commit()
  std::size_t commit();

 private:
  std::vector<std::unique_ptr<AtomicFile>> copies_;
};

}  // namespace gbcompress
