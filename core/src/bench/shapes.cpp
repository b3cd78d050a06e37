#include "bench/shapes.h"

#include <ATen/ATen.h>

#include <charconv>

#include "gbcompress/bench.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr double kStd = 0.02;
constexpr std::int64_t kMaxWeights = std::int64_t{1} << 33;  // of a "ROWSxCOLS" layer

void add_layer(EngineShape& shape, std::vector<std::int64_t> sizes) {
  NamedParameter layer;
  ParameterInfo& info = layer.info;
  info.module_path = std::to_string(shape.tensors.size());
  info.local_name = "weight";
  info.name = info.module_path + ".weight";
  info.module_type = sizes.size() == 2 ? "Linear" : "Conv2d";
  info.shape = sizes;
  info.std = kStd;
  layer.tensor = at::empty(sizes, at::kFloat).uniform_(-kStd, kStd);
  shape.tensors.push_back(std::move(layer));
}

void add_mlp(EngineShape& shape, const std::vector<std::int64_t>& widths) {
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) add_layer(shape, {widths[i + 1], widths[i]});
}

/// Without the first convolution, whose 432 weights are too few for a g-net.
void add_resnet20(EngineShape& shape) {
  std::int64_t channels = 16;
  for (const std::int64_t width : {16, 32, 64})
    for (int convolution = 0; convolution < 6; ++convolution) {
      add_layer(shape, {width, channels, 3, 3});
      channels = width;
    }
  add_layer(shape, {10, 64});
}

/// "300x784"; nothing for any other text.
std::vector<std::int64_t> parse_sides(const std::string& text) {
  std::int64_t rows = 0, cols = 0;
  const char* end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, rows);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != 'x') return {};
  const auto second = std::from_chars(first.ptr + 1, end, cols);
  if (second.ec != std::errc() || second.ptr != end) return {};
  if (rows < 1 || cols < 1 || rows > kMaxWeights / cols)
    throw Error(Errc::kUsage, "a layer of " + printable(text) +
                                  " is not possible; give two sides of at least 1, and no more "
                                  "than 8,589,934,592 weights");
  return {rows, cols};
}

}  // namespace

std::vector<std::string> engine_shapes() {
  return {"mnist-mlp", "gpt2-block", "llama-block", "resnet20", "pnas-layer"};
}

EngineShape make_engine_shape(const std::string& name) {
  EngineShape shape;
  shape.name = name;
  if (name == "mnist-mlp") {
    add_mlp(shape, {784, 256, 256, 64, 10});
  } else if (name == "gpt2-block") {
    add_mlp(shape, {768, 3072, 768});
  } else if (name == "llama-block") {
    add_mlp(shape, {4096, 11008});
  } else if (name == "resnet20") {
    add_resnet20(shape);
  } else if (name == "pnas-layer") {
    add_layer(shape, {784, 800});
    shape.gnet.tile_weights = 800 * 800;  // a side of 800: the whole layer is one tile
    shape.gnet.hidden = {30, 10};
  } else if (const auto sides = parse_sides(name); !sides.empty()) {
    add_layer(shape, sides);
  } else {
    throw Error(Errc::kUsage, "shape " + printable(name) + " is not known" +
                                  did_you_mean(name, engine_shapes()) +
                                  "; a layer of another size is named ROWSxCOLS");
  }
  return shape;
}

}  // namespace gbcompress
