#include "golden/sample_parts.h"

#include <cmath>
#include "artifact/sections/float_code.h"

#include "base/random.h"

namespace gbcompress::samples {

std::vector<float> numbers(std::int64_t n, std::uint64_t seed, float deviation) {
  std::vector<float> result(static_cast<std::size_t>(n));
  RandomStream(seed, "samples").fill_normal(result, 0, deviation);
  return result;
}

namespace {

/// Integers as training leaves them: most are 0, a few are large.
std::vector<std::int32_t> integers(std::int64_t n, std::uint64_t seed, float deviation = 0.8f) {
  std::vector<std::int32_t> result;
  for (float value : numbers(n, seed, deviation))
    result.push_back(static_cast<std::int32_t>(std::lrint(value * value * value)));
  return result;
}

}  // namespace

GNetSpec spec_of(const char* type, std::vector<std::int64_t> shape, const MatrixView& view,
                 std::vector<std::int64_t> hidden, std::int64_t tile_weights) {
  ParameterInfo parameter;
  parameter.name = type;
  parameter.shape = std::move(shape);
  parameter.std = 0.07;
  GNetOptions options;
  options.hidden = std::move(hidden);
  options.tile_weights = tile_weights;
  GNetSpec spec = make_spec(parameter, view, options);
  spec.type_id = type;
  return spec;
}

void add(ArtifactWriter& writer, const std::string& name, DType dtype, const GNetSpec& spec,
         Coding coding, std::uint64_t seed) {
  writer.add_generated(name, dtype, spec.shape, spec, coding, numbers(spec_parameters(spec), seed));
}

CodedValues coded_values(const std::vector<std::int64_t>& shape, std::uint64_t seed, bool row_steps,
                         bool dependent) {
  CodedValues values{.grid = default_grid(shape), .step = -60 + static_cast<int>(seed % 32)};
  values.grid.dependent = dependent;
  values.integers = integers(values.grid.size(), seed);
  if (row_steps) values.row_steps = integers(values.grid.rows, seed + 1, 1.5f);
  return values;
}

CodedValues short_floats(const std::vector<std::int64_t>& shape, std::uint64_t seed,
                         int mantissa_bits, int exponent) {
  CodedValues values{.grid = default_grid(shape), .step = exponent, .mantissa_bits = mantissa_bits};
  const RandomStream noise(seed, "short floats");
  const std::int32_t codes = float_codes(mantissa_bits);
  for (std::int64_t i = 0; i < values.grid.size(); ++i) {
    const auto code = static_cast<std::int32_t>(noise.bits(static_cast<std::uint64_t>(i)) %
                                                static_cast<std::uint32_t>(2 * codes - 1));
    values.integers.push_back(code - codes + 1);
  }
  return values;
}

CodedTheta coded_theta(const GNetSpec& spec, std::uint64_t seed) {
  CodedTheta theta{.integers = integers(spec_parameters(spec), seed, 1.6f)};
  for (std::size_t b = 0; b < gnet_blocks(spec).size(); ++b)
    theta.steps.push_back(-40 + static_cast<int>((seed + 5 * b) % 16));
  return theta;
}

void add_floats(ArtifactWriter& writer, const std::string& name, std::int64_t n,
                std::uint64_t seed) {
  const auto values = numbers(n, seed);
  writer.add_plain(name, DType::kF32, {n}, std::as_bytes(std::span(values)));
}

}  // namespace gbcompress::samples
