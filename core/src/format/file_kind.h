#pragma once
/// What a model file is, told by its content.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "format/zip_archive.h"

namespace gbcompress {

enum class FileKind : std::uint8_t {
  kSafetensors,  ///< a file, an index or a folder
  kArtifact,     ///< `.gbz`
  kStateDict,    ///< torch.save, also its old format, which read_state_dict() refuses by name
  kTorchScript,  ///< a zip with code/ and constants.pkl
  kUnknown,
};

/// A folder counts as safetensors; so does a file of that name that is damaged, so that its reader
/// says what is wrong with it.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty file or a zip that
///         was cut off; Error(kCorrupt) for a broken zip directory
FileKind sniff(const std::filesystem::path& path);
/// The same for bytes in memory, by content only.
FileKind sniff_bytes(std::span<const std::byte> bytes, const std::string& label);

/// Folder inside a torch.save zip that holds data.pkl, with a slash at its end; "" where there is
/// none at all. @throws Error(kCorrupt) where there are several
std::string state_dict_folder(const ZipArchive& zip, const std::string& label);

}  // namespace gbcompress
