#pragma once
/// What a model file is, told by its content.

#include <cstddef>
#include <span>
#include <string>

#include "base/internal.h"
#include "format/zip_archive.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

/// sniff() for bytes in memory, by content only. @throws also as refuse_stand_in()
FileKind sniff_bytes(std::span<const std::byte> bytes, const std::string& label);

/// What stands in for a file that is not there, as the end of a sentence: "is a Git LFS pointer,
/// not the file itself; run `git lfs pull`", "is a web page, not a model; its download failed"; ""
/// for anything else.
std::string describe_stand_in(std::span<const std::byte> bytes);
/// @throws Error(kUnsupported) with that sentence
void refuse_stand_in(std::span<const std::byte> bytes, const std::string& label);

/// What a file of no use here is, where it is easy to tell, as the end of a sentence: "is a Git LFS
/// pointer, not the file itself; run `git lfs pull`"; "" for others.
std::string describe_foreign(std::span<const std::byte> bytes);

/// Folder inside a torch.save zip that holds data.pkl, with a slash at its end; "" where there is
/// none at all. @throws Error(kCorrupt) where there are several
std::string state_dict_folder(const ZipArchive& zip, const std::string& label);

}  // namespace gbcompress
