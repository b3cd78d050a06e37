#include "artifact/decode.h"

#include <cstring>

#include "artifact/float16.h"
#include "base/file.h"
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

template <typename T, typename F>
std::vector<std::byte> convert(const std::vector<float>& values, F&& to) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  for (std::size_t n = 0; n < values.size(); ++n) {
    const T value = to(values[n]);
    std::memcpy(bytes.data() + n * sizeof(T), &value, sizeof value);
  }
  return bytes;
}

}  // namespace

std::vector<std::byte> decode_tensor(const ArtifactReader& artifact, std::size_t tensor) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  if (tensors[tensor].kind == TensorKind::kTied)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == tensors[tensor].tied_to) return decode_tensor(artifact, i);
  const ArtifactTensor& entry = tensors[tensor];
  if (entry.kind == TensorKind::kPlain) return artifact.plain(tensor);
  if (entry.plan.shape != entry.shape)
    throw Error(Errc::kUnsupported, printable(entry.name) +
                                        " is built from its tiles by layer type " +
                                        entry.plan.type_id + ", whose plugin is needed");
  const std::vector<float> values = generate(entry.plan, artifact.theta(tensor));
  switch (entry.dtype) {
    case DType::kF16:
      return convert<std::uint16_t>(values, float_to_half);
    case DType::kBF16:
      return convert<std::uint16_t>(values, float_to_bfloat);
    case DType::kF64:
      return convert<double>(values, [](float v) { return double{v}; });
    default:
      return convert<float>(values, [](float v) { return v; });
  }
}

}  // namespace gbcompress
