#include <ATen/ATen.h>

#include <cstring>
#include <map>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

at::Tensor generate(const ArtifactReader& artifact, std::size_t index, const TileKernel& kernel,
                    const GNetType& type) {
  const ArtifactTensor& stored = artifact.tensors()[index];
  const GNetPlan& plan = stored.plan;
  const BankShape shape = bank_shape(plan);
  const TileGrid grid = plan.grid();
  const std::vector<float> theta = artifact.theta(index);
  const bool custom = type.supports("custom-build") != 0;
  at::Tensor values =
      custom
          ? at::zeros({grid.tiles(), grid.tile_rows(), grid.tile_cols(), grid.kernel()}, at::kFloat)
          : at::empty(plan.shape, at::kFloat);
  float* data = values.data_ptr<float>();
  std::vector<TileTarget> targets;
  append_tiles(targets, grid, data, custom, plan.output_scale);
  kernel.forward(shape, theta, targets);
  return custom ? type.build(plan, values, stored.shape) : values;
}

}  // namespace

std::vector<NamedParameter> expand(const ArtifactReader& artifact, const Registry& types) {
  const at::NoGradGuard no_grad;
  // All types first, so that a missing plugin is told before any work.
  for (const ArtifactTensor& stored : artifact.tensors())
    if (stored.kind == TensorKind::kGenerated)
      types.require(stored.plan.type_id, stored.plan.type_revision);

  const auto kernel = make_reference_kernel();
  std::vector<NamedParameter> result;
  std::map<std::string, std::size_t> by_name;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& stored = artifact.tensors()[i];
    NamedParameter entry;
    entry.info.name = stored.name;
    const std::size_t dot = stored.name.rfind('.');
    entry.info.local_name = dot == std::string::npos ? stored.name : stored.name.substr(dot + 1);
    entry.info.module_path = dot == std::string::npos ? "" : stored.name.substr(0, dot);
    entry.info.shape = stored.shape;
    entry.info.dtype = stored.dtype;
    entry.trainable = stored.kind == TensorKind::kGenerated;
    if (stored.kind == TensorKind::kGenerated) {
      const GNetType& type = types.require(stored.plan.type_id, stored.plan.type_revision);
      entry.tensor =
          generate(artifact, i, *kernel, type).to(to_scalar_type(stored.dtype)).contiguous();
    } else if (stored.kind == TensorKind::kPlain) {
      const std::vector<std::byte> bytes = artifact.plain(i);
      entry.tensor = at::empty(stored.shape, to_scalar_type(stored.dtype));
      std::memcpy(entry.tensor.data_ptr(), bytes.data(), bytes.size());
    } else {
      entry.tied_to = stored.tied_to;
    }
    by_name[stored.name] = i;
    result.push_back(std::move(entry));
  }
  for (NamedParameter& entry : result)
    if (!entry.tied_to.empty()) entry.tensor = result[by_name.at(entry.tied_to)].tensor;
  return result;
}

}  // namespace gbcompress
