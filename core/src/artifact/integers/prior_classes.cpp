// What a stochastic g-net tells the coder. Exact: the reference kernel's order of float arithmetic
// is part of the format, and of its output only comparisons with constants follow.
#include "artifact/integers/integers.h"
#include "gnet/tile_kernel.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

constexpr int kClasses = 16;
/// Classes change at (c - 8) * kHalfOctave, c = 1 ... 15.
constexpr float kHalfOctave = 0.34657359f;

}  // namespace

std::uint8_t prior_class(float log_deviation) noexcept {
  int result = 0;
  for (int c = 1; c < kClasses; ++c)
    result += log_deviation >= static_cast<float>(c - kClasses / 2) * kHalfOctave;
  return static_cast<std::uint8_t>(result);
}

bool has_prior_classes(const ArtifactTensor& tensor) noexcept {
  return tensor.kind == TensorKind::kPredicted && tensor.spec.generator == Generator::kStochastic &&
         tensor.spec.shape == tensor.shape;
}

std::vector<std::uint8_t> prior_classes(const ArtifactTensor& tensor,
                                        std::span<const std::int32_t> blocks) {
  const GNetSpec& spec = tensor.spec;
  const std::vector<float> theta =
      coded_floats(spec, CodedTheta{tensor.theta_steps, from_blocks(spec, blocks)});
  const TileGrid grid = spec.grid();
  const auto n = static_cast<std::size_t>(grid.elements());
  std::vector<float> means(n), log_deviations(n);
  std::vector<TileTarget> tiles;
  append_tiles(tiles, grid, means.data(), false, spec.output_scale, nullptr, log_deviations.data());
  make_reference_kernel()->forward(bank_shape(spec), theta, tiles);
  std::vector<std::uint8_t> classes(n);
  for (std::size_t i = 0; i < n; ++i) classes[i] = prior_class(log_deviations[i]);
  return classes;
}

}  // namespace gbcompress
