// Writes files that the command line itself cannot be made to write.
//   gbc_cli_fixtures FOLDER                      ghost.gbz names a layer type that nobody provides,
//                                                coded.gbz has a tensor of every kind
//   gbc_cli_fixtures FOLDER LAYERS ROWS COLS     layers.gbz expands to that many linear layers
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <span>

#include "gbcompress/artifact.h"

namespace gbcompress {
namespace {

void write_ghost(const std::filesystem::path& folder) {
  GNetSpec spec;
  spec.type_id = "ghost";
  spec.shape = {8, 8};
  spec.tile_rows = spec.tile_cols = 8;
  spec.hidden = {4};
  const std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)), 0.5F);
  ArtifactWriter writer("", "");
  writer.add_generated("ghost.weight", DType::kF32, {8, 8}, spec, Coding::kF32, theta);
  writer.write(folder / "ghost.gbz", false);
}

void write_coded(const std::filesystem::path& folder) {
  GNetSpec spec;
  spec.type_id = "linear";
  spec.shape = {6, 8};
  spec.tile_rows = 6;
  spec.tile_cols = 8;
  spec.hidden = {4};
  CodedTheta theta;
  theta.steps.assign(gnet_blocks(spec).size(), -48);
  theta.integers.assign(static_cast<std::size_t>(spec_parameters(spec)), 1);
  CodedValues values{.grid = default_grid({6, 8}), .step = -64};
  for (int n = 0; n < 48; ++n) values.integers.push_back(n % 3 - 1);
  const float one = 1;
  ArtifactWriter writer("", "");
  writer.add_coded("coded", DType::kF32, {6, 8}, values);
  writer.add_predicted("predicted", DType::kF32, {6, 8}, spec, theta, values);
  writer.add_generated_coded("generated", DType::kF32, {6, 8}, spec, theta);
  writer.add_constant("constant", DType::kF32, {9}, std::as_bytes(std::span(&one, 1)));
  writer.add_tied("tied", "predicted");
  writer.write(folder / "coded.gbz", false);
}

void write_layers(const std::filesystem::path& folder, int layers, std::int64_t rows,
                  std::int64_t cols) {
  GNetSpec spec;
  spec.type_id = "linear";
  spec.shape = {rows, cols};
  spec.tile_rows = std::min<std::int64_t>(rows, 100);
  spec.tile_cols = std::min<std::int64_t>(cols, 100);
  spec.output_scale = 0.04F;
  std::vector<float> theta(static_cast<std::size_t>(spec_parameters(spec)));
  ArtifactWriter writer("", "");
  std::mt19937 random(1);
  for (int l = 0; l < layers; ++l) {
    for (float& value : theta) value = static_cast<float>(random() % 2001) * 1e-4F - 0.1F;
    writer.add_generated(std::to_string(l) + ".weight", DType::kF32, spec.shape, spec, Coding::kI8,
                         theta);
  }
  writer.write(folder / "layers.gbz", false);
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  if (argc == 2) {
    gbcompress::write_ghost(argv[1]);
    gbcompress::write_coded(argv[1]);
  } else if (argc == 5) {
    gbcompress::write_layers(argv[1], std::atoi(argv[2]), std::atoll(argv[3]), std::atoll(argv[4]));
  } else {
    return 2;
  }
}
