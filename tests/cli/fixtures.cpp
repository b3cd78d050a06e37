// Writes files that the command line itself cannot be made to write: ghost.gbz names a layer type
// that nobody provides.   gbc_cli_fixtures FOLDER
#include <filesystem>

#include "gbcompress/artifact.h"

int main(int argc, char** argv) {
  using namespace gbcompress;
  if (argc != 2) return 2;
  GNetPlan plan;
  plan.type_id = "ghost";
  plan.shape = {8, 8};
  plan.tile_rows = plan.tile_cols = 8;
  plan.hidden = {4};
  const std::vector<float> theta(static_cast<std::size_t>(plan_parameters(plan)), 0.5F);
  ArtifactWriter writer("", "");
  writer.add_generated("ghost.weight", DType::kF32, {8, 8}, plan, Coding::kF32, theta);
  writer.write(std::filesystem::path(argv[1]) / "ghost.gbz", false);
}
