#include "artifact/model_files.h"

#include <algorithm>
#include <memory>

#include "artifact/expansion.h"
#include "base/digest.h"
#include "base/file.h"
#include "format/payload.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

/// Writes one file, its holes filled. @return its bytes
std::int64_t write_file(AtomicFile& to, const ContainerFile& file, const ArtifactReader& artifact,
                        Expansion& expansion, const std::string& label,
                        const OriginalFile* original) {
  const auto skeleton = std::span<const std::byte>(file.skeleton);
  std::uint64_t from = 0;
  std::int64_t bytes = 0;
  Sha256 digest;
  const bool exact = original && original->is_exact();
  const auto write = [&](std::span<const std::byte> piece) {
    to.write(piece);
    if (exact) digest.update(piece);
    bytes += static_cast<std::int64_t>(piece.size());
  };
  for (std::size_t i = 0; i < file.holes.size(); ++i) {
    const Hole& hole = file.holes[i];
    if (hole.before > skeleton.size() - from)
      throw Error(Errc::kCorrupt,
                  label + ": a hole of its container lies behind the end of its file");
    write(skeleton.subspan(from, hole.before));
    from += hole.before;
    const bool ordered = original && original->orders.contains(i);
    if (hole.encoding == PayloadEncoding::kBytes && !ordered) {
      expansion.next(write);
      continue;
    }
    const ArtifactTensor& tensor = artifact.tensors()[hole.tensor];
    std::vector<std::byte> elements;
    expansion.next([&](std::span<const std::byte> piece) {
      elements.insert(elements.end(), piece.begin(), piece.end());
    });
    write(ordered ? ordered_elements(elements, tensor, original->orders.at(i), label)
                  : payload_of(hole, elements, tensor.dtype, label));
  }
  write(skeleton.subspan(from));
  if (original && (bytes != original->bytes || (exact && digest.finish() != original->sha256)))
    throw Error(
        Errc::kCorrupt,
        label + ": " + (file.name.empty() ? "the model's file" : printable(file.name)) +
            " does not come back as it was, by its size or SHA-256; compress the model again");
  return bytes;
}

/// Where a file of external data is written; subfolders are made. A subfolder that is a link would
/// let a file of a stranger write elsewhere.
fs::path place_of(const fs::path& output, const ContainerFile& file, const std::string& label) {
  if (file.name.empty()) return output;
  const fs::path path = output.parent_path() / file.name;
  std::error_code failed;
  fs::path folder = output.parent_path();
  for (const fs::path& part : fs::path(file.name).parent_path())
    if (fs::is_symlink(fs::symlink_status(folder /= part, failed)))
      throw Error(Errc::kUnsupported, label + " has a file in " + printable(file.name) + ", and " +
                                          printable(folder.string()) +
                                          " is a link to another folder; remove the link, or "
                                          "expand into an empty folder");
  fs::create_directories(path.parent_path().empty() ? fs::path(".") : path.parent_path(), failed);
  if (failed)
    throw Error(Errc::kIo, "the folder of " + printable(path.string()) +
                               " cannot be made: " + failed.message());
  return path;
}

}  // namespace

std::string label_of(const ArtifactReader& artifact) {
  return artifact.path().empty() ? "the file" : printable(artifact.path().string());
}

std::int64_t write_model_files(const ArtifactReader& artifact,
                               const std::vector<ContainerFile>& files, const fs::path& output,
                               bool overwrite, const DecodeOptions& options,
                               std::span<const OriginalFile> originals) {
  const std::string label = label_of(artifact);
  std::vector<std::size_t> order;
  std::vector<fs::path> paths;
  for (const ContainerFile& file : files) {
    for (const Hole& hole : file.holes) order.push_back(hole.tensor);
    paths.push_back(place_of(output, file, label));
    if (std::find(paths.begin(), paths.end() - 1, paths.back()) != paths.end() - 1)
      throw Error(Errc::kUsage, label + " has a file of the name " + printable(file.name) +
                                    " beside the model; give the model another name");
    check_not_an_input(paths.back(), {&artifact.path(), 1});
    check_writable(paths.back(), overwrite);
  }
  Expansion expansion(artifact, std::move(order), options);
  std::vector<std::unique_ptr<AtomicFile>> written;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    written.push_back(std::make_unique<AtomicFile>(paths[i], overwrite));
    bytes += write_file(*written.back(), files[i], artifact, expansion, label,
                        originals.empty() ? nullptr : &originals[i]);
  }
  // The model last: it names the others.
  for (auto file = written.rbegin(); file != written.rend(); ++file) (*file)->commit();
  return bytes;
}

}  // namespace gbcompress
