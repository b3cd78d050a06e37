#include "artifact/decode.h"

#include "artifact/elements.h"
#include "base/checked.h"
#include "base/text.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

std::vector<float> generate(const GNetPlan& plan, std::span<const float> theta) {
  const TileGrid grid = plan.grid();
  std::vector<float> values(static_cast<std::size_t>(grid.elements()));
  std::vector<TileTarget> tiles;
  append_tiles(tiles, grid, values.data(), false, plan.output_scale);
  make_reference_kernel()->forward(bank_shape(plan), theta, tiles);
  return values;
}

std::vector<std::byte> repeat(const std::vector<std::byte>& element, std::int64_t count) {
  std::vector<std::byte> bytes;
  bytes.reserve(element.size() * static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n)
    bytes.insert(bytes.end(), element.begin(), element.end());
  return bytes;
}

/// Of a tensor that has g-nets.
std::vector<float> numbers(const ArtifactReader& artifact, std::size_t tensor) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  if (entry.plan.shape != entry.shape)
    throw Error(Errc::kUnsupported, printable(entry.name) +
                                        " is built from its tiles by layer type " +
                                        entry.plan.type_id + ", whose plugin is needed");
  std::vector<float> values = generate(entry.plan, artifact.theta(tensor));
  if (entry.kind == TensorKind::kResidual) add_residual(values, artifact.coded(tensor));
  return values;
}

}  // namespace

void add_residual(std::span<float> values, const CodedValues& coded) {
  const std::vector<float> more = coded_floats(coded);
  for (std::size_t n = 0; n < values.size(); ++n) values[n] += more[n];
}

std::vector<std::byte> decode_tensor(const ArtifactReader& artifact, std::size_t tensor) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  const ArtifactTensor& entry = tensors[tensor];
  if (entry.kind == TensorKind::kTied)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == entry.tied_to) return decode_tensor(artifact, i);
  if (entry.kind == TensorKind::kPlain) return artifact.plain(tensor);
  if (entry.kind == TensorKind::kConstant)
    return repeat(artifact.constant(tensor), checked_elements(entry.shape, "a tensor"));
  if (entry.kind == TensorKind::kCoded) return coded_elements(artifact.coded(tensor), entry.dtype);
  return elements_of(numbers(artifact, tensor), entry.dtype);
}

}  // namespace gbcompress
