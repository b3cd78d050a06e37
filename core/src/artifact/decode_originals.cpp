// The files that a `.gbz` was made of, byte for byte.
#include <algorithm>

#include "artifact/file_digest.h"
#include "artifact/kept_files.h"
#include "artifact/model_files.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;

std::optional<OriginalFiles> kept_originals(const ArtifactReader& artifact) {
  return blame_damage(artifact, [&]() -> std::optional<OriginalFiles> {
    const std::vector<std::byte> stored = artifact.originals();
    if (stored.empty()) return {};
    return OriginalFiles::decode(stored, artifact.tensors().size(), label_of(artifact));
  });
}

std::vector<ContainerFile> whole_files(const ArtifactReader& artifact,
                                       const OriginalFiles& originals) {
  std::vector<ContainerFile> files;
  blame_damage(artifact, [&] {
    for (const OriginalFile& file : originals.files)
      files.push_back(whole_file(file, artifact.tensors(), label_of(artifact)));
  });
  return files;
}

bool OriginalsInfo::is_exact() const noexcept {
  return std::none_of(files.begin(), files.end(),
                      [](const OriginalInfo& file) { return file.sha256.empty(); });
}

std::optional<OriginalsInfo> originals_of(const ArtifactReader& artifact) {
  const auto originals = kept_originals(artifact);
  if (!originals) return {};
  OriginalsInfo info{originals->format, {}};
  for (const OriginalFile& file : originals->files)
    info.files.push_back(
        {file.content.name, file.bytes, file.is_exact() ? to_hex(file.sha256) : ""});
  return info;
}

std::int64_t decode_to_originals(const ArtifactReader& artifact, const fs::path& output,
                                 bool overwrite, const DecodeOptions& options) {
  check_not_an_input(output, {&artifact.path(), 1});
  const std::string label = label_of(artifact);
  const auto originals = kept_originals(artifact);
  if (!originals)
    throw Error(Errc::kUsage, label +
                                  " does not keep the files that it was made of; name a "
                                  ".safetensors or .npz file to write its tensors");
  // Files are made under the names that it holds.
  if (originals->files.size() > 1) artifact.check_digest();
  std::vector<ContainerFile> files = whole_files(artifact, *originals);
  files.front().name.clear();
  return write_model_files(artifact, files, output, overwrite, options, originals->files);
}

}  // namespace gbcompress
