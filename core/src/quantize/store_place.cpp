// Steps of matrices for a target: a size, or an error.
#include <algorithm>
#include <cmath>
#include <utility>

#include "artifact/integers/transform.h"
#include "artifact/sections/elements.h"
#include "base/mapped_inputs.h"
#include "quantize/change.h"
#include "quantize/pieces.h"
#include "quantize/store.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Tries at a step whose error is known only once it was taken, and more where rounding to the
/// element type makes errors jump.
constexpr int kMostRefinements = 6, kMostBisections = 4;
/// What a step that is a sixteenth of an octave coarser adds to an error, and the share of an error
/// target that estimates of it may use up.
constexpr double kCoarserError = 0.0915, kErrorRoom = 0.9995;
constexpr double kCosineRoom = 0.9999;
/// Sixteenths of an octave by which a search goes at most.
constexpr int kMostSteps = 1024;
/// Errors of so many times that of the element type's rounding do not jump from step to step.
constexpr double kSmooth = 64;
/// Matrices of so few numbers together are coded at so many steps each.
constexpr std::int64_t kTiny = 8192;
constexpr int kTinySteps = 32;
/// One in so many weights is encoded to correct the estimate of the file size.
constexpr std::int64_t kTrial = 12;

/// An octave of steps is worth a factor of 4 of the error.
int steps_of(double error_ratio) {
  const double steps = std::floor(kStepsPerOctave * std::log2(error_ratio) / 2);
  return static_cast<int>(std::clamp(steps, -1.0 * kMostSteps, 1.0 * kMostSteps));
}

/// The integers at a step, or at a finer one where more than `most` is lost: a sample does not tell
/// all.
/// @param least  by how many sixteenths of an octave the step changes, at least; below 0
template <typename Choose>
auto chosen_within(double most, int step, int finest, int least, const Choose& choose) {
  step = std::max(step, finest);
  auto chosen = choose(step);
  for (int tries = 0; chosen.relative_error > most && tries < kMostRefinements; ++tries) {
    step = std::max(finest, step + std::min(least, steps_of(most / chosen.relative_error)));
    chosen = choose(step);
  }
  return chosen;
}

/// What an element type holds with its full precision.
struct ElementRange {
  double least, largest;  ///< rows below and values above it are checked as they decode
  double precision;       ///< mean relative squared error of rounding to it; 0: float32 or more
};
ElementRange range_of(DType dtype) {
  if (dtype == DType::kF16) return {0x1p-10, 32768, 0x1p-24 / 12};
  if (dtype == DType::kBF16) return {0x1p-115, 0x1p126, 0x1p-18 / 12};
  return {0x1p-115, 0x1p126, 0};
}

/// Whether decoded values have errors that their integers do not show: those of the element type,
/// or of cosines along the rows.
bool differs_decoded(const TensorAllocation& tensor, bool error_counts) {
  const ElementRange range = range_of(tensor.source->dtype);
  return tensor.axis == 0 || (error_counts && range.precision > 0) ||
         static_cast<double>(tensor.facts.largest) > range.largest ||
         tensor.facts.least < range.least;
}

/// The relative squared error of what such integers decode to, or that of its worst row where that
/// is more than it may be.
double decoded_error(const TensorAllocation& tensor, CodedValues values) {
  values.axis = tensor.axis;
  const TensorEntry& source = *tensor.source;
  const std::vector<float> before = numbers_of(source);
  std::vector<float> after(before.size());
  floats_of(elements_of(tensor_floats(values, source.shape), source.dtype), source.dtype, after);
  const double worst = worst_row(tensor.grid, before, after);
  return worst > kMostRelativeError ? worst : relative_error(before, after);
}

}  // namespace

std::vector<std::int64_t> WeightsStore::matrix_sizes() const {
  std::vector<std::int64_t> sizes;
  for (const TensorAllocation& tensor : allocation_.tensors())
    sizes.push_back(tensor.sample ? tensor.facts.numbers : 0);
  return sizes;
}

void WeightsStore::for_matrices(const std::function<void(std::size_t, int)>& body) {
  for_matrices(matrix_sizes(), body);
}

void WeightsStore::for_matrices(const std::vector<std::int64_t>& sizes,
                                const std::function<void(std::size_t, int)>& body) {
  for_bounded(sizes, allocation_.threads(), [&](std::size_t i, int threads) {
    if (sizes[i] == 0) return;
    body(i, threads);
    release_pages(allocation_.tensors()[i].source->bytes);
  });
}

StepMatrix::Chosen WeightsStore::choose(const TensorAllocation& tensor, const StepMatrix& matrix,
                                        int step, int threads) const {
  StepMatrix::Chosen chosen = matrix.choose(step, options_.quantizer, threads);
  if (!tensor.base && differs_decoded(tensor, options_.max_error.has_value()))
    chosen.relative_error = decoded_error(tensor, chosen.values);
  // Sums are rounded to the element type, whose steps are those of the tensor, not of the change.
  if (tensor.base)
    chosen.relative_error =
        change_sums(*tensor.source, *tensor.base, on_base(chosen.values, *tensor.base)).relative();
  return chosen;
}

void WeightsStore::place_one(std::size_t i, double x, int threads) {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  if (tensor.second || exact_[i]) return;  // placed with the first, or exactly
  const int step = tensor.step(x) + nudges_[i];
  if (tensor.max_error) {
    if (std::exchange(asked_[i], step) != step) place_within(i, *tensor.max_error, threads);
    return;
  }
  const bool calibrated = tensor.model && tensor.model->has_feedback();
  const bool step_decides = !calibrated || (takes_long(allocation_) && !tensor.model->second);
  if (step_decides && std::exchange(asked_[i], step) == step) return;
  if (calibrated && rounds_pieces(i)) return place_calibrated_pieces(i, x, threads);
  if (calibrated) return place_calibrated(target_of(i), x, threads);
  const std::string key = key_of(i, "step", step);
  if (put_kept(i, key)) return;
  if (profiles_[i] == CodecProfile::kLanes && !options_.sequential && MatrixPieces::fits(tensor) &&
      !differs_decoded(tensor, options_.max_error.has_value()))
    return place_pieces(i, step, key, threads);
  const StepMatrix matrix = matrix_of(i);
  const double most = kMostRelativeError * tensor.share;
  // Rounding may make up for less than an octave.
  const int least = tensor.base ? -kStepsPerOctave : -1;
  StepMatrix::Chosen chosen = chosen_within(most, step, matrix.finest(), least, [&](int k) {
    return choose(tensor, matrix, k, threads);
  });
  if (!(chosen.relative_error <= most)) return put_exactly(i);
  errors_[i] = chosen.relative_error;
  put(i, std::move(chosen.values), key);
}

void WeightsStore::place_pieces(std::size_t i, int step, const std::string& key, int threads) {
  const MatrixPieces matrix(allocation_.tensors()[i]);
  MatrixPieces::Chosen chosen =
      chosen_within(kMostRelativeError, step, matrix.finest(), -1,
                    [&](int k) { return matrix.choose(k, options_.quantizer, threads); });
  if (!(chosen.relative_error <= kMostRelativeError)) return put_exactly(i);
  errors_[i] = chosen.relative_error;
  put_packed(i, std::move(chosen.form), chosen.blocks, key);
}

std::int64_t WeightsStore::place(double x) {
  if (options_.sequential) return place_in_sequence(x);
  for_matrices([&](std::size_t i, int threads) { place_one(i, x, threads); });
  put_biases();
  return writer_.size();
}

std::optional<double> WeightsStore::trial(double x) {
  std::vector<std::int64_t> sizes = matrix_sizes();
  std::int64_t seen = 0, taken = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    seen += sizes[i];
    const TensorAllocation& tensor = allocation_.tensors()[i];
    const bool take = kTrial * (taken + sizes[i]) <= seen && !tensor.second &&
                      (!tensor.model || !tensor.model->second);
    taken += take ? sizes[i] : 0;
    sizes[i] = take ? sizes[i] : 0;
  }
  if (taken == 0) return {};
  const bool counted = std::exchange(counts_stripes_, true);
  for_matrices(sizes, [&](std::size_t i, int threads) { place_one(i, x, threads); });
  counts_stripes_ = counted;
  const std::vector<double> expected = allocation_.expected_bytes(x);
  double bytes = 0, estimate = 0;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0) continue;
    if (!placed_[i]) return {};
    bytes += placed_[i]->bytes;
    estimate += expected[i];
  }
  return bytes / estimate;
}

std::optional<StepMatrix::Chosen> WeightsStore::coarsest(const TensorAllocation& tensor,
                                                         const StepMatrix& matrix, double max_error,
                                                         int threads) const {
  // Rounding to the element type makes errors jump from step to step.
  const bool jumps = tensor.base ||
                     max_error < kSmooth * range_of(tensor.source->dtype).precision ||
                     tensor.facts.least < range_of(tensor.source->dtype).least;
  // High rate: a step of D has an error of D^2 / 12 a number, the trellis three quarters of it.
  std::optional<double> guess =
      nearest_step(static_cast<float>(tensor.facts.rms * std::sqrt(12 * max_error)));
  std::optional<StepMatrix::Chosen> best;
  int at = kMinStep;  // the step of the best
  // Both sides are assumed: the one that holds is not a step of this matrix.
  BracketSearch search(
      {.scale = Scale::kInteger, .cuts = kMostRefinements + (jumps ? kMostBisections : 0)},
      {.holds = matrix.finest() - 1, .fails = kMaxStep});
  while (const auto x = search.next(guess)) {
    const int k = static_cast<int>(*x);
    StepMatrix::Chosen chosen = choose(tensor, matrix, k, threads);
    const double ratio = max_error / std::max(chosen.relative_error, 1e-30);
    search.tried(*x, ratio >= 1);
    if (ratio >= 1) {
      best = std::move(chosen);
      at = k;
      guess = k + std::max(1, steps_of(ratio));
    } else {
      guess = k + std::min(-1, steps_of(ratio));
    }
    if (!best || *guess > at) continue;
    // Where rounding takes most of an error away, it does not tell how far the next step is.
    if (!jumps) break;
    guess.reset();
  }
  return best;
}

/// Of the step found and finer ones the integers that take the fewest bytes: in a tiny matrix those
/// of a coarser step may take more, with offsets of rows.
StepMatrix::Chosen WeightsStore::smallest(const TensorAllocation& tensor, const StepMatrix& matrix,
                                          StepMatrix::Chosen best, double max_error) const {
  const auto bits_of = [](const CodedValues& values) {
    IntegerEncoder encoder(CodecProfile::kSmall);
    if (!values.row_steps.empty()) encoder.add({1, values.grid.rows, 0}, values.row_steps);
    encoder.add(values.grid, values.integers);
    return encoder.ideal_bits();
  };
  const int coarsest = best.values.step;
  double least = bits_of(best.values);
  for (int k = coarsest - 1; k >= std::max(coarsest - kTinySteps, matrix.finest()); --k) {
    StepMatrix::Chosen chosen = choose(tensor, matrix, k, 1);
    const double bits = bits_of(chosen.values);
    if (!(chosen.relative_error <= max_error) || bits >= least) continue;
    least = bits;
    best = std::move(chosen);
  }
  return best;
}

void WeightsStore::place_within(std::size_t i, double asked, int threads) {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  double max_error = asked * tensor.share;
  // Cosines are rounded to float32 twice.
  if (tensor.axis >= 0) max_error *= kCosineRoom;
  if (tensor.base) max_error = std::min(max_error, kMostRelativeError);
  const std::string key = key_of(i, "error", max_error);
  if (put_kept(i, key)) return;
  const StepMatrix matrix = matrix_of(i);
  auto best = coarsest(tensor, matrix, max_error, threads);
  // No step, or one that is exact.
  if (!best || (best->relative_error == 0 && !tensor.base)) return put_exactly(i);
  if (allocation_.matrix_numbers() <= kTiny && allocation_.profile() == CodecProfile::kSmall &&
      !tensor.base)
    best = smallest(tensor, matrix, *std::move(best), max_error);
  errors_[i] = best->relative_error;
  put(i, std::move(best->values), key);
}

std::int64_t WeightsStore::place_error(double asked) {
  for_matrices([&](std::size_t i, int threads) {
    if (exact_[i]) return;
    asked_[i].reset();
    const TensorAllocation& tensor = allocation_.tensors()[i];
    if (tensor.own_step && !tensor.max_error) return place_one(i, 0, threads);
    place_within(i, tensor.max_error.value_or(asked), threads);
  });
  return writer_.size();
}

double WeightsStore::total_error(double x) {
  for_matrices([&](std::size_t i, int threads) {
    if (exact_[i]) return;
    const TensorAllocation& tensor = allocation_.tensors()[i];
    const StepMatrix matrix = matrix_of(i);
    const int k = std::max(tensor.step(x), matrix.finest());
    errors_[i] = matrix.choose(k, options_.quantizer, threads).relative_error;
  });
  return total();
}

double WeightsStore::total() const {
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < errors_.size(); ++i) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    if (!tensor.sample) continue;
    error += errors_[i] * tensor.facts.squares;
    squares += tensor.facts.squares;
  }
  return squares > 0 ? error / squares : 0;
}

std::int64_t WeightsStore::place_total(double x, double most) {
  nudges_.assign(nudges_.size(), 0);
  double left = most * kErrorRoom - total_error(x), squares = 0;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < errors_.size(); ++i)
    if (allocation_.tensors()[i].sample) {
      order.push_back(i);
      squares += allocation_.tensors()[i].facts.squares;
    }
  const auto more = [&](std::size_t i) {
    return kCoarserError * errors_[i] * allocation_.tensors()[i].facts.squares / squares;
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return more(a) > more(b); });
  for (const std::size_t i : order) {
    if (more(i) > left || allocation_.tensors()[i].step(x) >= allocation_.tensors()[i].coarsest)
      continue;
    left -= more(i);
    nudges_[i] = 1;
  }
  const std::int64_t bytes = place(x);
  if (total() <= most) return bytes;
  nudges_.assign(nudges_.size(), 0);
  return place(x);
}

}  // namespace gbcompress
