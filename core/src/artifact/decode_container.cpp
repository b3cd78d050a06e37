// The files of a model again, of a container and tensors.
#include "artifact/file_digest.h"
#include "artifact/kept_files.h"
#include "artifact/model_files.h"
#include "format/container.h"
#include "format/gguf/open.h"
#include "format/gguf/parts.h"
#include "format/onnx/open.h"
#include "format/tensor_hint.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

std::size_t container_at(const ArtifactReader& artifact) {
  const auto& tensors = artifact.tensors();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    // The exact part of a file with layers has that of the draft.
    const bool there = tensors[i].kind == TensorKind::kExact ||
                       (artifact.draft() && tensors[i].kind == TensorKind::kBase);
    if (there && tensors[i].name == kContainerName && tensors[i].dtype == DType::kU8) return i;
  }
  return kNowhere;
}

Container read_container(const ArtifactReader& artifact, std::size_t at) {
  return blame_damage(artifact, [&] {
    return Container::decode(decode_tensor(artifact, at), artifact.tensors().size(),
                             label_of(artifact));
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

std::optional<Container> kept_container(const ArtifactReader& artifact, const fs::path& output,
                                        const DecodeOptions& options) {
  const std::size_t at = container_at(artifact);
  if (at == kNowhere) return {};
  Container container = read_container(artifact, at);
  name_parts(container, output);
  for (ContainerFile& file : container.files) {
    for (const Hole& hole : file.holes)
      if (hole.tensor == at)
        throw Error(Errc::kCorrupt, label_of(artifact) + ": its container fills itself");
    blame_damage(artifact, [&] { fit(file, artifact, options); });
  }
  return container;
}

std::int64_t decode_to_container(const ArtifactReader& artifact, const fs::path& output,
                                 bool overwrite, const DecodeOptions& options) {
  check_not_an_input(output, {&artifact.path(), 1});
  const auto info = container_of(artifact);
  if (!info)
    throw Error(Errc::kUsage,
                label_of(artifact) +
                    " was not made of an ONNX or a GGUF model; name a .safetensors or .npz file to "
                    "write");
  // Folders and files are made under the names that it holds.
  if (!info->files.empty()) artifact.check_digest();
  const auto container = kept_container(artifact, output, options);
  return write_model_files(artifact, container->files, output, overwrite, options);
}

}  // namespace gbcompress
