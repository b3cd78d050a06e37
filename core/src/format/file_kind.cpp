#include "format/file_kind.h"

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/file.h"
#include "base/mapped_inputs.h"
#include "format/gguf/open.h"
#include "format/model_folder.h"
#include "format/torch/exported_program.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;

std::string state_dict_folder(const ZipArchive& zip, const std::string& label) {
  constexpr std::string_view kPickle = "data.pkl";
  std::string folder;
  for (const auto& [name, entry] : zip.entries()) {
    const std::size_t slash = name.find('/');
    if (slash == std::string::npos || std::string_view(name).substr(slash + 1) != kPickle) continue;
    if (!folder.empty()) throw Error(Errc::kCorrupt, label + " holds data.pkl in two folders");
    folder = name.substr(0, slash + 1);
  }
  return folder;
}

FileKind sniff_bytes(std::span<const std::byte> bytes, const std::string& label) {
  if (bytes.empty()) throw Error(Errc::kTruncated, label + " is empty");
  refuse_stand_in(bytes, label);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // The number of its tensors may look like another format's mark.
  if (gguf::looks_like_model(bytes)) return FileKind::kUnknown;
  // Of any version: the reader refuses those that it does not support.
  if (text.size() >= 4 && text.starts_with("GBZ") && text[3] >= '1' && text[3] <= '9')
    return FileKind::kArtifact;
  if (text.starts_with("PK\x03\x04")) {
    const ZipArchive zip(bytes, label);
    if (is_exported_program(zip)) return FileKind::kExported;
    const std::string folder = state_dict_folder(zip, label);
    if (folder.empty()) return FileKind::kUnknown;
    const auto code = zip.entries().lower_bound(folder + "code/");
    const bool has_code = code != zip.entries().end() && code->first.starts_with(folder + "code/");
    return has_code && zip.contains(folder + "constants.pkl") ? FileKind::kTorchScript
                                                              : FileKind::kStateDict;
  }
  // A bare pickle of protocol 2 to 5, as torch.save wrote before 1.6.
  if (text.size() >= 2 && text[0] == '\x80' && text[1] >= 2 && text[1] <= 5 &&
      !(text.size() > 8 && text[8] == '{'))
    return FileKind::kStateDict;
  if (text.size() > 8 && text[8] == '{') return FileKind::kSafetensors;
  return FileKind::kUnknown;
}

namespace {

/// Whether a file named .gbz is a damaged one: no other format's, but by chance.
bool is_no_other(FileKind kind, std::span<const std::byte> bytes) {
  if (kind == FileKind::kUnknown) return !gguf::looks_like_model(bytes);
  if (kind != FileKind::kSafetensors) return false;
  std::uint64_t header = 0;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header > bytes.size();
}

}  // namespace

FileKind sniff(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return FileKind::kFolder;
  const MappedFile map(path);
  const std::string name = path.filename().string();
  FileKind kind;
  try {
    kind = sniff_bytes(map.bytes(), printable(path.string()));
  } catch (const Error& error) {
    // By chance a damaged file begins as a zip file does.
    const bool damaged = error.code() == Errc::kCorrupt || error.code() == Errc::kTruncated;
    if (damaged && name.ends_with(".gbz")) return FileKind::kArtifact;
    throw;
  }
  check_mapped(map.bytes());
  // By chance their bytes may look like another format's.
  if (kind == FileKind::kSafetensors && name.ends_with(".onnx")) return FileKind::kUnknown;
  if (name.ends_with(".gbz") && is_no_other(kind, map.bytes())) return FileKind::kArtifact;
  if (kind != FileKind::kUnknown) return kind;
  if (is_model_index(name)) return FileKind::kFolder;
  return name.ends_with(".safetensors") ? FileKind::kSafetensors : FileKind::kUnknown;
}

}  // namespace gbcompress
