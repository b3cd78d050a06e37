#pragma once
/// What a model file is, told by its content.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "base/internal.h"
#include "format/zip_archive.h"

namespace GBC_INTERNAL gbcompress {

enum class FileKind : std::uint8_t {
  kSafetensors,
  kFolder,       ///< a folder, or the index of shards in one
  kArtifact,     ///< `.gbz`
  kStateDict,    ///< torch.save: a zip, or a bare pickle as before PyTorch 1.6
  kExported,     ///< `.pt2` of torch.export, or of AOTInductor
  kTorchScript,  ///< a zip with code/ and constants.pkl
  kUnknown,
};

/// A file named .safetensors that is damaged counts as that, so that its reader says what is wrong
/// with it.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty file or a zip that
///         was cut off; Error(kCorrupt) for a broken zip directory
FileKind sniff(const std::filesystem::path& path);
/// The same for bytes in memory, by content only.
FileKind sniff_bytes(std::span<const std::byte> bytes, const std::string& label);

/// What a file of no use here is, where it is easy to tell, as the end of a sentence: "is a Git LFS
/// pointer, not the file itself; run `git lfs pull`"; "" for others.
std::string describe_foreign(std::span<const std::byte> bytes);

/// Folder inside a torch.save zip that holds data.pkl, with a slash at its end; "" where there is
/// none at all. @throws Error(kCorrupt) where there are several
std::string state_dict_folder(const ZipArchive& zip, const std::string& label);

}  // namespace gbcompress
