#include <algorithm>
#include <cmath>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "artifact/sections/levels.h"
#include "base/checked.h"
#include "codec/trellis/quantizer_state.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// The float32 nearest to 2^(j / 16).
constexpr float kSixteenths[16] = {0x1p+0f,        0x1.0b5586p+0f, 0x1.172b84p+0f, 0x1.2387a6p+0f,
                                   0x1.306fep+0f,  0x1.3dea64p+0f, 0x1.4bfdaep+0f, 0x1.5ab07ep+0f,
                                   0x1.6a09e6p+0f, 0x1.7a1148p+0f, 0x1.8ace54p+0f, 0x1.9c4918p+0f,
                                   0x1.ae89fap+0f, 0x1.c199bep+0f, 0x1.d5818ep+0f, 0x1.ea4afap+0f};

/// The whole s with s * s = n, or 0.
std::int64_t exact_root(std::int64_t n) {
  auto s = static_cast<std::int64_t>(std::sqrt(static_cast<double>(n)));
  while (s * s > n) --s;
  while ((s + 1) * (s + 1) <= n) ++s;
  return s * s == n ? s : 0;
}

}  // namespace

float step_size(int k) {
  if (k < kMinStep || k > kMaxStep)
    throw Error(Errc::kUsage, "step " + std::to_string(k) + " is outside " +
                                  std::to_string(kMinStep) + " to " + std::to_string(kMaxStep));
  const int low = k & 15;
  return std::ldexp(kSixteenths[low], (k - low) / 16);
}

int nearest_step(float size) {
  if (!(size > 0)) return kMinStep;
  const double k = std::nearbyint(16 * std::log2(static_cast<double>(size)));
  return static_cast<int>(std::clamp<double>(k, kMinStep, kMaxStep));
}

IntegerGrid default_grid(const std::vector<std::int64_t>& shape) {
  IntegerGrid grid;
  std::size_t first = 0;
  if (shape.size() >= 2) grid.rows = shape[first++];
  for (std::size_t d = first; d < shape.size(); ++d) grid.cols *= shape[d];
  if (shape.size() == 2 && grid.cols >= 64) grid.stride = exact_root(grid.cols);
  if (shape.size() < 3 || grid.cols == 0) return grid;
  // The width of a kernel: 2 % smaller files than with all its positions (ResNet-20).
  const std::int64_t stride = shape.back();
  if (stride > 1 && stride < grid.cols) grid.stride = stride;
  return grid;
}

IntegerGrid nibble_grid(const std::vector<std::int64_t>& shape, DType dtype) {
  IntegerGrid grid = default_grid(shape);
  grid.cols = checked_mul(grid.cols, dtype_bits(dtype) / 4, "a tensor of nibbles");
  grid.stride = 0;
  return grid;
}

std::vector<float> coded_floats(const CodedValues& values) {
  check_values(values, "the values");
  std::vector<float> floats(values.integers.size());
  if (values.levels.used()) {
    floats_of(level_elements(values), values.levels.dtype, floats);
    return floats;
  }
  if (values.mantissa_bits > 0) {
    std::transform(
        values.integers.begin(), values.integers.end(), floats.begin(),
        [&](std::int32_t k) { return float_of_code(k, values.mantissa_bits, values.step); });
    return floats;
  }
  const auto cols = static_cast<std::size_t>(values.grid.cols);
  codec::QuantizerStates states(values.grid);
  for (std::size_t row = 0; row < static_cast<std::size_t>(values.grid.rows); ++row) {
    const float step =
        step_size(values.row_steps.empty() ? values.step : values.step + values.row_steps[row]);
    for (std::size_t n = row * cols; n < (row + 1) * cols; ++n) {
      const std::int32_t integer = values.integers[n];
      if (values.grid.dependent) {
        codec::QuantizerState& state = states.next();
        floats[n] = static_cast<float>(state.twice(integer)) * (step / 2);
        state.pass(integer);
      } else {
        floats[n] = static_cast<float>(integer) * step;
      }
    }
  }
  return floats;
}

std::vector<float> coded_floats(const GNetSpec& spec, const CodedTheta& theta) {
  check_theta(spec, theta, "the g-nets");
  const auto blocks = gnet_blocks(spec);
  const std::int64_t parameters = gnet_parameters(spec);
  std::vector<float> floats(theta.integers.size());
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const float step = step_size(theta.steps[b]);
    for (std::int64_t tile = 0; tile < spec.grid().tiles(); ++tile)
      for (std::int64_t p = 0; p < blocks[b].count; ++p) {
        const auto n = static_cast<std::size_t>(tile * parameters + blocks[b].first + p);
        floats[n] = static_cast<float>(theta.integers[n]) * step;
      }
  }
  return floats;
}

}  // namespace gbcompress
