// Bytes of profile `lanes` beside `fast`, for the matrices of a model: nearest integers, the same
// for both profiles, and those that each profile's trellis chooses at the same steps.
//
//   gbc_profile_bytes MODEL BITS...
//
// Every matrix has a step in proportion to its root mean square; the largest such steps are taken
// at which `fast` needs at least that many bits per weight. Each figure counts everything: of
// `fast` one stream per matrix, of `lanes` one stream for all, with its head and its index.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <vector>

#include "artifact/integers/integers.h"
#include "base/parallel.h"
#include "gbcompress/codec.h"
#include "gbcompress/tensors.h"
#include "quantize/allocation/plan.h"
#include "quantize/matrix.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kLeastWeights = 4096;

struct Matrix {
  IntegerGrid grid;
  std::vector<float> values;
  double rms;
};

std::vector<Matrix> matrices_of(const TensorBundle& bundle) {
  std::vector<Matrix> matrices;
  for (const TensorEntry& tensor : bundle.tensors) {
    const IntegerGrid grid = default_grid(tensor.shape);
    if (!is_real(tensor.dtype) || tensor.shape.size() < 2 || grid.size() < kLeastWeights) continue;
    std::vector<float> values = numbers_of(tensor);
    const double squares = squares_of(values);
    if (!(squares > 0) || !std::isfinite(squares)) continue;  // masks have infinities
    matrices.push_back(
        {grid, std::move(values), std::sqrt(squares / static_cast<double>(grid.size()))});
  }
  return matrices;
}

struct Coded {
  double bytes = 0, error = 0;  ///< error: mean of the relative squared errors, by weights
};

/// @param step  sixteenths of an octave, relative to each matrix's root mean square
Coded code(const std::vector<Matrix>& matrices, CodecProfile profile, Quantizer quantizer,
           int step) {
  std::vector<StepMatrix::Chosen> chosen(matrices.size());
  std::vector<double> bytes(matrices.size());
  parallel_tasks(usable_processors(), static_cast<std::int64_t>(matrices.size()),
                 [&](std::int64_t n) {
                   const auto i = static_cast<std::size_t>(n);
                   IntegerGrid grid = matrices[i].grid;
                   grid.lanes = profile == CodecProfile::kLanes;
                   const StepMatrix matrix(grid, matrices[i].values, {});
                   const int k = nearest_step(static_cast<float>(matrices[i].rms)) + step;
                   chosen[i] = matrix.choose(std::max(k, matrix.finest()), quantizer, 1);
                   if (profile == CodecProfile::kLanes) return;
                   IntegerEncoder encoder(profile);
                   encoder.add(chosen[i].values.grid, chosen[i].values.integers);
                   bytes[i] = static_cast<double>(encoder.finish().size());
                 });
  Coded coded;
  double weights = 0;
  IntegerEncoder all(CodecProfile::kLanes);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto n = static_cast<double>(matrices[i].grid.size());
    weights += n;
    coded.error += n * chosen[i].relative_error;
    coded.bytes += bytes[i];
    if (profile == CodecProfile::kLanes) all.add(chosen[i].values.grid, chosen[i].values.integers);
  }
  coded.error /= weights;
  if (profile == CodecProfile::kLanes) coded.bytes = static_cast<double>(all.finish().size());
  return coded;
}

void compare(const std::vector<Matrix>& matrices, double weights, double bits, const char* comma) {
  for (const Quantizer quantizer : {Quantizer::kNearest, Quantizer::kTrellis}) {
    int low = -8 * kStepsPerOctave, high = 3 * kStepsPerOctave;  // fast: enough bits at low
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      const double found =
          8 * code(matrices, CodecProfile::kFast, quantizer, middle).bytes / weights;
      (found >= bits ? low : high) = middle;
    }
    const Coded fast = code(matrices, CodecProfile::kFast, quantizer, low);
    const Coded lanes = code(matrices, CodecProfile::kLanes, quantizer, low);
    std::printf(
        "%s{\"bits\": %g, \"integers\": \"%s\", \"fast\": %.0f, \"lanes\": %.0f, "
        "\"more_percent\": %.3f, \"error_percent\": %.3f}",
        quantizer == Quantizer::kNearest ? comma : ",\n ", bits,
        std::string(quantizer_name(quantizer)).c_str(), fast.bytes, lanes.bytes,
        100 * (lanes.bytes / fast.bytes - 1), 100 * (lanes.error / fast.error - 1));
    std::fflush(stdout);
  }
}

int run(int argc, char** argv) {
  const TensorBundle bundle = open_tensors(argv[1]);
  const std::vector<Matrix> matrices = matrices_of(bundle);
  double weights = 0;
  for (const Matrix& matrix : matrices) weights += static_cast<double>(matrix.grid.size());
  if (matrices.empty()) throw Error(Errc::kUsage, "the model has no matrices");
  std::printf("{\"matrices\": %zu, \"weights\": %.0f, \"rows\": [\n ", matrices.size(), weights);
  for (int i = 2; i < argc; ++i)
    compare(matrices, weights, std::strtod(argv[i], nullptr), i > 2 ? ",\n " : "");
  std::printf("\n]}\n");
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: gbc_profile_bytes MODEL BITS...\n");
    return 2;
  }
  try {
    return gbcompress::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gbc_profile_bytes: %s\n", error.what());
    return 1;
  }
}
