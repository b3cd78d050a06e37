#pragma once
/// What sample artifacts are made of: counter-based random numbers, specifications, coded tensors.

#include <cstdint>
#include <string>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress::samples {

/// Normal numbers.
std::vector<float> numbers(std::int64_t n, std::uint64_t seed, float deviation = 0.3f);
GNetSpec spec_of(const char* type, std::vector<std::int64_t> shape, const MatrixView& view,
                 std::vector<std::int64_t> hidden, std::int64_t tile_weights);
CodedValues coded_values(const std::vector<std::int64_t>& shape, std::uint64_t seed,
                         bool row_steps, bool dependent = false);
/// Codes of every octave.
CodedValues short_floats(const std::vector<std::int64_t>& shape, std::uint64_t seed,
                         int mantissa_bits, int exponent);
CodedTheta coded_theta(const GNetSpec& spec, std::uint64_t seed);

/// A generated tensor of the specification's shape with random g-nets.
void add(ArtifactWriter& writer, const std::string& name, DType dtype, const GNetSpec& spec,
         Coding coding, std::uint64_t seed);
/// A plain vector.
void add_floats(ArtifactWriter& writer, const std::string& name, std::int64_t n,
                std::uint64_t seed);

}  // namespace gbcompress::samples
