// The files of a model again, of a container and tensors.
#include <algorithm>
#include <memory>

#include "artifact/expansion.h"
#include "artifact/file_digest.h"
#include "format/container.h"
#include "format/gguf/open.h"
#include "format/gguf/parts.h"
#include "format/onnx/open.h"
#include "format/payload.h"
#include "format/tensor_hint.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

std::size_t container_at(const ArtifactReader& artifact) {
  const auto& tensors = artifact.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == kContainerName && tensors[i].kind == TensorKind::kExact &&
        tensors[i].dtype == DType::kU8)
      return i;
  return kNowhere;
}

std::string label_of(const ArtifactReader& artifact) {
  return artifact.path().empty() ? "the file" : printable(artifact.path().string());
}

Container read_container(const ArtifactReader& artifact, std::size_t at) {
  return blame_damage(artifact, [&] {
    return Container::decode(artifact.plain(at), artifact.tensors().size(), label_of(artifact));
  });
}

/// Varints that became longer or shorter change the lengths around them.
void fit(ContainerFile& file, const ArtifactReader& artifact, const DecodeOptions& options) {
  std::vector<std::int64_t> more(file.holes.size());
  for (std::size_t i = 0; i < more.size(); ++i) {
    const Hole& hole = file.holes[i];
    if (hole.encoding != PayloadEncoding::kVarint) continue;
    const DecodedTensor tensor = decode_elements(artifact, hole.tensor, options);
    more[i] = static_cast<std::int64_t>(to_varints(tensor.bytes(), tensor.dtype()).size()) -
              static_cast<std::int64_t>(payload_size(file, hole, label_of(artifact)));
  }
  fit_lengths(file, more, label_of(artifact));
}

/// Writes one file, its holes filled. @return its bytes
std::int64_t write_file(AtomicFile& to, const ContainerFile& file, const ArtifactReader& artifact,
                        Expansion& expansion, const std::string& label) {
  const auto skeleton = std::span<const std::byte>(file.skeleton);
  std::uint64_t from = 0;
  std::int64_t bytes = 0;
  const auto write = [&](std::span<const std::byte> piece) {
    to.write(piece);
    bytes += static_cast<std::int64_t>(piece.size());
  };
  for (const Hole& hole : file.holes) {
    if (hole.before > skeleton.size() - from)
      throw Error(Errc::kCorrupt,
                  label + ": a hole of its container lies behind the end of its file");
    write(skeleton.subspan(from, hole.before));
    from += hole.before;
    if (hole.encoding == PayloadEncoding::kBytes) {
      expansion.next(write);
      continue;
    }
    std::vector<std::byte> elements;
    expansion.next([&](std::span<const std::byte> piece) {
      elements.insert(elements.end(), piece.begin(), piece.end());
    });
    write(payload_of(hole, elements, artifact.tensors()[hole.tensor].dtype, label));
  }
  write(skeleton.subspan(from));
  return bytes;
}

/// Parts of a split model find each other by their names, which follow the output's.
void name_parts(Container& container, const fs::path& output) {
  if (container.format != "gguf") return;
  const auto own = gguf::part_name(output);
  const std::string stem = own ? own->stem : output.stem().string();
  for (ContainerFile& file : container.files)
    if (auto name = gguf::part_name(file.name)) {
      name->stem = stem;
      file.name = name->file(name->number);
    }
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

static_assert(kContainer == kContainerName);

bool is_onnx(const fs::path& path) { return onnx::is_model(path); }
bool is_gguf(const fs::path& path) { return gguf::is_model(path); }
std::map<std::string, std::string> gguf_types(const fs::path& path) {
  return gguf::open_types(path);
}

std::vector<fs::path> gguf_files(const fs::path& path) { return gguf::open_parts(path); }

std::map<std::string, std::vector<std::string>> consumers_of(const TensorBundle& bundle) {
  std::map<std::string, std::vector<std::string>> consumers;
  if (bundle.files.empty() || !is_onnx(bundle.files.front())) return consumers;
  for (auto& [name, hint] : hints_of(bundle)) consumers[name] = hint.consumers;
  return consumers;
}

std::optional<ContainerInfo> container_of(const ArtifactReader& artifact) {
  const std::size_t at = container_at(artifact);
  if (at == kNowhere) return {};
  const Container container = read_container(artifact, at);
  ContainerInfo info{container.format, {}};
  for (const ContainerFile& file : container.files) {
    if (!file.name.empty()) info.files.push_back(file.name);
    for (const Hole& hole : file.holes)
      info.requantized = info.requantized || hole.encoding > PayloadEncoding::kVarint;
  }
  return info;
}

std::int64_t decode_to_container(const ArtifactReader& artifact, const fs::path& output,
                                 bool overwrite, const DecodeOptions& options) {
  check_not_an_input(output, {&artifact.path(), 1});
  const std::string label = label_of(artifact);
  const std::size_t at = container_at(artifact);
  if (at == kNowhere)
    throw Error(Errc::kUsage,
                label +
                    " was not made of an ONNX or a GGUF model; name a .safetensors or .npz file to "
                    "write");
  Container container = read_container(artifact, at);
  // Folders and files are made under the names that it holds.
  if (container.files.size() > 1) artifact.check_digest();
  name_parts(container, output);
  std::vector<std::size_t> order;
  for (ContainerFile& file : container.files) {
    for (const Hole& hole : file.holes) {
      if (hole.tensor == at) throw Error(Errc::kCorrupt, label + ": its container fills itself");
      order.push_back(hole.tensor);
    }
    blame_damage(artifact, [&] { fit(file, artifact, options); });
  }
  std::vector<fs::path> paths;
  for (const ContainerFile& file : container.files) {
    paths.push_back(place_of(output, file, label));
    if (std::find(paths.begin(), paths.end() - 1, paths.back()) != paths.end() - 1)
      throw Error(Errc::kUsage, label + " has a file of the name " + printable(file.name) +
                                    " beside the model; give the model another name");
    check_not_an_input(paths.back(), {&artifact.path(), 1});
    check_writable(paths.back(), overwrite);
  }
  Expansion expansion(artifact, std::move(order), options);
  std::vector<std::unique_ptr<AtomicFile>> files;
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    files.push_back(std::make_unique<AtomicFile>(paths[i], overwrite));
    bytes += write_file(*files.back(), container.files[i], artifact, expansion, label);
  }
  // The model last: it names the others.
  for (auto file = files.rbegin(); file != files.rend(); ++file) (*file)->commit();
  return bytes;
}

}  // namespace gbcompress
