// Artifacts back into tensors: the decoder of the artifact rung, with the layer types of a
// registry.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <map>

#include "gbcompress/bottleneck.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// A type with a build of its own gets its tiles as one tensor.
std::vector<float> build(const GNetType& type, const ArtifactTensor& stored,
                         std::span<const float> tiles) {
  const at::NoGradGuard no_grad;
  const TileGrid grid = stored.spec.grid();
  const std::vector<std::int64_t> shape = {grid.tiles(), grid.tile_rows(), grid.tile_cols(),
                                           grid.kernel()};
  at::Tensor stack = at::empty(shape, at::kFloat);
  std::memcpy(stack.data_ptr(), tiles.data(), tiles.size_bytes());
  const at::Tensor values = type.build(stored.spec, stack, stored.shape, stored.name).contiguous();
  const float* data = values.const_data_ptr<float>();
  return {data, data + values.numel()};
}

/// @throws Error(kPluginMissing) where the registry lacks a layer type
DecodeOptions with_types(const Registry& types) {
  return {.builder = [&types](const ArtifactTensor& stored) -> TileBuilder {
            const GNetType& type = types.require(stored.spec.type_id, stored.spec.type_revision);
            if (type.supports("custom-build") == 0) return {};
            return [&type](const ArtifactTensor& tensor, std::span<const float> tiles) {
              return build(type, tensor, tiles);
            };
          },
          .threads = at::get_num_threads()};
}

at::Tensor decode(const ArtifactReader& artifact, std::size_t index, const DecodeOptions& options) {
  const ArtifactTensor& stored = artifact.tensors()[index];
  const std::vector<std::byte> bytes = decode_tensor(artifact, index, options);
  const at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
  if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

}  // namespace

std::vector<NamedParameter> expand(const ArtifactReader& artifact, const Registry& types) {
  const DecodeOptions options = with_types(types);
  // All types first, so that a missing plugin is reported before any work.
  for (const ArtifactTensor& stored : artifact.tensors())
    if (has_spec(stored.kind)) options.builder(stored);
  std::map<std::string, std::size_t> index;
  std::vector<NamedParameter> result;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& stored = artifact.tensors()[i];
    index[stored.name] = i;
    NamedParameter entry;
    entry.info.name = stored.name;
    const std::size_t dot = stored.name.rfind('.');
    entry.info.local_name = dot == std::string::npos ? stored.name : stored.name.substr(dot + 1);
    entry.info.module_path = dot == std::string::npos ? "" : stored.name.substr(0, dot);
    entry.info.shape = stored.shape;
    entry.info.dtype = stored.dtype;
    entry.trainable = has_spec(stored.kind) || stored.kind == TensorKind::kQuantized;
    if (stored.kind == TensorKind::kTied)
      entry.tied_to = stored.tied_to;
    else
      entry.tensor = decode(artifact, i, options);
    result.push_back(std::move(entry));
  }
  for (NamedParameter& entry : result)
    if (!entry.tied_to.empty()) entry.tensor = result[index.at(entry.tied_to)].tensor;
  return result;
}

std::int64_t expand_to_file(const ArtifactReader& artifact, const Registry& types,
                            const std::filesystem::path& output, bool overwrite) {
  return decode_to_file(artifact, output, overwrite, with_types(types));
}

}  // namespace gbcompress
