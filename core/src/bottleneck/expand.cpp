#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstring>
#include <map>

#include "artifact/decode.h"
#include "base/interrupt.h"
#include "format/safetensors.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

/// All types first, so that a missing plugin is told before any work.
void require_types(const ArtifactReader& artifact, const Registry& types) {
  for (const ArtifactTensor& stored : artifact.tensors())
    if (has_plan(stored.kind)) types.require(stored.plan.type_id, stored.plan.type_revision);
}

/// Every tile by the exact kernel. Tiles do not know of each other: threads change no bit.
void generate_tiles(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> targets) {
  const auto kernel = make_reference_kernel();
  const auto parameters = static_cast<std::size_t>(shape.parameters());
  at::parallel_for(0, static_cast<std::int64_t>(targets.size()), 1,
                   [&](std::int64_t begin, std::int64_t end) {
                     const auto first = static_cast<std::size_t>(begin);
                     const auto count = static_cast<std::size_t>(end - begin);
                     kernel->forward(shape, theta.subspan(first * parameters, count * parameters),
                                     targets.subspan(first, count));
                   });
}

at::Tensor generate(const ArtifactReader& artifact, std::size_t index, const GNetType& type) {
  const ArtifactTensor& stored = artifact.tensors()[index];
  const GNetPlan& plan = stored.plan;
  const TileGrid grid = plan.grid();
  const bool custom = type.supports("custom-build") != 0;
  at::Tensor values =
      custom
          ? at::zeros({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()}, at::kFloat)
          : at::empty(plan.shape, at::kFloat);
  std::vector<TileTarget> targets;
  append_tiles(targets, grid, values.data_ptr<float>(), custom, plan.output_scale);
  generate_tiles(bank_shape(plan), artifact.theta(index), targets);
  return custom ? type.build(plan, values, stored.shape) : values;
}

/// Of an untied tensor.
at::Tensor decode(const ArtifactReader& artifact, const Registry& types, std::size_t index) {
  const at::NoGradGuard no_grad;
  const ArtifactTensor& stored = artifact.tensors()[index];
  if (!has_plan(stored.kind)) {
    const std::vector<std::byte> bytes = decode_tensor(artifact, index);
    const at::Tensor tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
    if (!bytes.empty()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
    return tensor;
  }
  const GNetType& type = types.require(stored.plan.type_id, stored.plan.type_revision);
  at::Tensor values = generate(artifact, index, type);
  if (stored.kind == TensorKind::kResidual) {
    values = values.to(at::kFloat).contiguous();
    add_residual({values.data_ptr<float>(), static_cast<std::size_t>(values.numel())},
                 artifact.coded(index));
  }
  return values.to(to_scalar_type(stored.dtype)).contiguous();
}

std::map<std::string, std::size_t> index_of_names(const ArtifactReader& artifact) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) index[artifact.tensors()[i].name] = i;
  return index;
}

}  // namespace

std::vector<NamedParameter> expand(const ArtifactReader& artifact, const Registry& types) {
  require_types(artifact, types);
  const auto index = index_of_names(artifact);
  std::vector<NamedParameter> result;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& stored = artifact.tensors()[i];
    NamedParameter entry;
    entry.info.name = stored.name;
    const std::size_t dot = stored.name.rfind('.');
    entry.info.local_name = dot == std::string::npos ? stored.name : stored.name.substr(dot + 1);
    entry.info.module_path = dot == std::string::npos ? "" : stored.name.substr(0, dot);
    entry.info.shape = stored.shape;
    entry.info.dtype = stored.dtype;
    entry.trainable = has_plan(stored.kind) || stored.kind == TensorKind::kCoded;
    if (stored.kind == TensorKind::kTied)
      entry.tied_to = stored.tied_to;
    else
      entry.tensor = decode(artifact, types, i);
    result.push_back(std::move(entry));
  }
  for (NamedParameter& entry : result)
    if (!entry.tied_to.empty()) entry.tensor = result[index.at(entry.tied_to)].tensor;
  return result;
}

std::int64_t expand_to_file(const ArtifactReader& artifact, const Registry& types,
                            const std::filesystem::path& output, bool overwrite) {
  require_types(artifact, types);
  const auto index = index_of_names(artifact);
  std::vector<TensorEntry> entries;
  for (const ArtifactTensor& stored : artifact.tensors())
    entries.push_back({stored.name, stored.dtype, stored.shape, {}});
  at::Tensor current;
  const TensorSource source = [&](std::size_t i) -> std::span<const std::byte> {
    throw_if_interrupted();
    const ArtifactTensor& stored = artifact.tensors()[i];
    current.reset();  // before the next one: never two at a time
    current =
        decode(artifact, types, stored.kind == TensorKind::kTied ? index.at(stored.tied_to) : i);
    return {static_cast<const std::byte*>(current.const_data_ptr()), current.nbytes()};
  };
  return write_safetensors(output, entries, {{"format", "pt"}}, overwrite, source);
}

}  // namespace gbcompress
