#include "weights/plan.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "artifact/elements.h"
#include "artifact/integers.h"
#include "artifact/transform.h"
#include "base/checked.h"
#include "base/glob.h"
#include "base/parallel.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "weights/axis.h"
#include "weights/matrix.h"

namespace gbcompress {
namespace {

/// Steps grow with this power of a tensor's rms, and with the root of its size
/// (docs/adr/0007-steps-without-data.md).
constexpr double kRmsPower = 0.75;
/// Where all tensors have one step: so little does a tensor's rms count, and vectors have finer
/// ones.
constexpr double kTotalPower = 0.03, kTotalVectorOctaves = -3;
/// Numbers of all samples together, by what coding one takes.
constexpr std::int64_t kSmallSamples = 400'000, kFastSamples = 4'000'000, kLeastSample = 4096;
/// Integers up to which a file takes the time for the profile small.
constexpr std::int64_t kMostSmall = 4'000'000;
/// Numbers that may be in work at a time beside a single large tensor.
constexpr std::int64_t kSideBySide = 1 << 23;
/// A sample's error stays below what may be lost by this factor.
constexpr double kSampleRoom = 0.97;
/// Entropy of a Gaussian number of deviation 1 at a step of 1, bits.
constexpr double kGaussianBits = 2.047;

/// About the relative error of matrices in a file of so many bits a number.
double error_of_bits(double bits) { return std::clamp(std::exp2(-2 * bits), 1e-6, 0.25); }

/// About the relative error of the finest integers there are, with a margin of two.
double finest_error(std::span<const float> values, double rms) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const double step = static_cast<double>(largest) / kMaxMagnitude;
  return step * step / 6 / (rms * rms);
}

std::vector<float> differences(std::vector<float> values, const TensorEntry& base) {
  const std::vector<float> before = numbers_of(base);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= before[i];
  return values;
}

/// Whether all elements are the same bytes.
bool is_repeated(const TensorEntry& tensor) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  if (size == 0 || dtype_bits(tensor.dtype) % 8 != 0 || tensor.bytes.size() < size) return false;
  return std::equal(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(size), tensor.bytes.end(),
                    tensor.bytes.begin());
}

}  // namespace

std::int64_t TensorPlan::elements() const noexcept {
  std::int64_t n = 1;
  for (const std::int64_t side : source->shape) n *= side;
  return n;
}

std::vector<float> TensorPlan::numbers() const {
  std::vector<float> values = numbers_of(*source);
  if (base) return differences(std::move(values), *base);
  return axis < 0 ? values : to_cosines(values, source->shape, axis);
}

int TensorPlan::step(double x) const noexcept {
  const double k = std::nearbyint(kStepsPerOctave * std::clamp(x + factor, -64.0, 64.0));
  return std::min(static_cast<int>(k), coarsest);
}

std::vector<float> numbers_of(const TensorEntry& tensor) {
  if (!is_real(tensor.dtype)) return {};
  std::vector<float> numbers(static_cast<std::size_t>(checked_elements(tensor.shape, "a tensor")));
  floats_of(tensor.bytes, tensor.dtype, numbers);
  return numbers;
}

double relative_error(std::span<const float> values, std::span<const float> stored) {
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<double>(values[i]);
    const double off = static_cast<double>(stored[i]) - value;
    error += off * off;
    squares += value * value;
  }
  return squares > 0 ? error / squares : error > 0 ? 1 : 0;
}

void for_bounded(const std::vector<std::int64_t>& sizes, int threads,
                 const std::function<void(std::size_t, int)>& body) {
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t last = first;
    for (std::int64_t sum = 0; last < sizes.size() && (sum += sizes[last]) <= kSideBySide;) ++last;
    throw_if_interrupted();
    if (last <= first + 1) {
      body(first++, threads);
      continue;
    }
    parallel_tasks(threads, static_cast<std::int64_t>(last - first),
                   [&](std::int64_t i) { body(first + static_cast<std::size_t>(i), 1); });
    first = last;
  }
}

WeightsPlan::WeightsPlan(const TensorBundle& weights, const WeightsOptions& options)
    : quantiser_(options.quantiser),
      threads_(options.threads > 0 ? options.threads : usable_processors()) {
  tensors_.resize(weights.tensors.size());
  std::vector<std::int64_t> sizes;
  double numbers = 1;
  for (const TensorEntry& entry : weights.tensors) {
    sizes.push_back(checked_elements(entry.shape, "a tensor"));
    if (is_real(entry.dtype)) numbers += static_cast<double>(sizes.back());
  }
  likely_error_ = options.max_error.value_or(
      error_of_bits(8 * static_cast<double>(options.max_bytes.value_or(0)) / numbers));
  for_bounded(sizes, threads_,
              [&](std::size_t i, int) { tensors_[i] = classify(weights.tensors[i], options); });
  for (const TensorPlan& tensor : tensors_)
    if (tensor.broken)
      throw Error(Errc::kNonFinite,
                  "tensor " + printable(tensor.source->name) +
                      " holds NaN or infinity; repair or retrain the model first");
  find_ties();
  std::int64_t integers = 0;
  bool fits = true;
  for (const TensorPlan& tensor : tensors_) {
    if (tensor.tied) continue;
    numbers_ += tensor.elements();
    if (tensor.kind == WeightKind::kMatrix) matrix_numbers_ += tensor.facts.numbers;
    const bool whole = is_codable(tensor.source->dtype) && !is_real(tensor.source->dtype);
    if (tensor.unchanged || tensor.constant || (tensor.kind == WeightKind::kExact && !whole))
      continue;
    integers += tensor.elements();
    fits = fits && (whole || fits_small({&tensor.grid, 1}));
  }
  profile_ = fits && integers <= kMostSmall ? CodecProfile::kSmall : CodecProfile::kFast;
  take_samples();
}

TensorPlan WeightsPlan::classify(const TensorEntry& source, const WeightsOptions& options) const {
  TensorPlan tensor;
  tensor.source = &source;
  const TensorEntry* before = options.base ? options.base->find(source.name) : nullptr;
  if (before && std::ranges::equal(before->bytes, source.bytes)) {
    tensor.unchanged = true;
    return tensor;
  }
  const std::vector<float> values = numbers_of(source);
  tensor.broken = !source.exact && holds_non_numbers(source, values);
  if (tensor.broken) return tensor;
  const bool asked = options.max_bytes || options.max_error;
  const bool excepted = source.exact || std::any_of(options.exact.begin(), options.exact.end(),
                                                    [&](const std::string& glob) {
                                                      return matches_glob(glob, source.name);
                                                    });
  if (asked && !excepted) tensor.kind = weight_kind(source, values);
  tensor.constant = !source.bytes.empty() && is_repeated(source);
  if (tensor.kind == WeightKind::kExact) return tensor;
  tensor.grid = default_grid(source.shape);
  const bool total = options.measure == ErrorMeasure::kTotal;
  const bool vector = tensor.kind == WeightKind::kVector;
  if (vector && !total) return tensor;
  tensor.kind = WeightKind::kMatrix;
  if (before && !total) {
    const double had = squares_of(values), changed = squares_of(differences(values, *before));
    // Changes may be below what float32 tells, or larger than the tensor.
    if (changed > 0 && changed < had) {
      tensor.base = before;
      tensor.share = had / changed;
    }
  }
  // Steps of rows serve outputs; an error that is asked is met with the fewest bits without them.
  if (!tensor.base) tensor.axis = cosine_axis(values, source.shape, likely_error_);
  // Waves along the outputs are none themselves.
  const bool rows_apart = !total && !options.max_error && tensor.axis != 0;
  const std::vector<float> numbers = tensor.numbers();
  tensor.facts = matrix_facts(tensor.grid, numbers, rows_apart);
  if (options.max_error &&
      finest_error(numbers, tensor.facts.rms) > *options.max_error * tensor.share) {
    tensor.kind = WeightKind::kExact;
    return tensor;
  }
  tensor.factor = total ? kTotalPower * std::log2(tensor.facts.rms) +
                              (tensor.grid.rows == 1 ? kTotalVectorOctaves : 0)
                        : kRmsPower * std::log2(tensor.facts.rms) +
                              std::log2(static_cast<double>(tensor.facts.numbers)) / 2;
  return tensor;
}

void WeightsPlan::find_ties() {
  std::map<std::tuple<const std::byte*, std::size_t, DType, std::vector<std::int64_t>>, std::size_t>
      first;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorEntry& source = *tensors_[i].source;
    if (source.bytes.empty()) continue;
    const auto [at, fresh] = first.emplace(
        std::tuple(source.bytes.data(), source.bytes.size(), source.dtype, source.shape), i);
    if (!fresh) tensors_[i].tied = at->second;
  }
}

void WeightsPlan::take_samples() {
  std::vector<std::int64_t> sizes;
  std::int64_t matrices = 0;
  for (const TensorPlan& tensor : tensors_) {
    const bool sampled = tensor.kind == WeightKind::kMatrix && !tensor.tied;
    sizes.push_back(sampled ? tensor.facts.numbers : 0);
    matrices += sampled;
  }
  if (matrices == 0) return;
  const std::int64_t all = profile_ == CodecProfile::kSmall ? kSmallSamples : kFastSamples;
  const std::int64_t each = std::max(kLeastSample, all / matrices);
  for_bounded(sizes, threads_, [&](std::size_t i, int) {
    TensorPlan& tensor = tensors_[i];
    if (sizes[i] == 0) return;
    tensor.sample.emplace(sample_of(tensor.grid, tensor.numbers(), tensor.facts.row_steps, each));
    // The coarsest step of which the sample loses no more than may be lost; errors grow with steps.
    const int middle = nearest_step(static_cast<float>(tensor.facts.rms));
    int low = std::max(middle - 6 * kStepsPerOctave, tensor.sample->finest());
    int high = std::max(middle + 4 * kStepsPerOctave, low);
    while (low < high) {
      const int k = low + (high - low + 1) / 2;
      const double error = tensor.sample->choose(k, quantiser_, 1).relative_error;
      if (error <= kSampleRoom * kMostRelativeError)
        low = k;
      else
        high = k - 1;
    }
    tensor.coarsest = low;
  });
  lowest_ = 64;
  highest_ = -64;
  for (const TensorPlan& tensor : tensors_) {
    if (!tensor.sample) continue;
    const auto x = [&](int k) { return static_cast<double>(k) / kStepsPerOctave - tensor.factor; };
    lowest_ = std::min(lowest_, x(tensor.sample->finest()));
    highest_ = std::max(highest_, x(tensor.coarsest));
  }
}

double WeightsPlan::expected_bytes(double x) const {
  double bits = 0;
  IntegerEncoder stream(CodecProfile::kSmall);
  std::vector<double> of_tensor(tensors_.size());
  const bool small = profile_ == CodecProfile::kSmall;
  std::vector<CodedValues> chosen(tensors_.size());
  parallel_tasks(threads_, static_cast<std::int64_t>(tensors_.size()), [&](std::int64_t n) {
    const auto i = static_cast<std::size_t>(n);
    const TensorPlan& tensor = tensors_[i];
    if (!tensor.sample) return;
    const int k = std::max(tensor.step(x), tensor.sample->finest());
    chosen[i] = tensor.sample->choose(k, quantiser_, 1).values;
    if (small) return;
    IntegerEncoder encoder(CodecProfile::kFast);
    encoder.add(chosen[i].grid, chosen[i].integers);
    of_tensor[i] = encoder.ideal_bits();
  });
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorPlan& tensor = tensors_[i];
    if (!tensor.sample) continue;
    if (small) {
      const double before = stream.ideal_bits();
      stream.add(chosen[i].grid, chosen[i].integers);
      of_tensor[i] = stream.ideal_bits() - before;
    }
    bits += of_tensor[i] * static_cast<double>(tensor.facts.numbers) /
            static_cast<double>(chosen[i].grid.size());
    bits += 4 * static_cast<double>(tensor.facts.row_steps.size());
  }
  return bits / 8;
}

double WeightsPlan::start(double bits) const {
  double sum = 0;
  for (const TensorPlan& tensor : tensors_)
    if (tensor.sample)
      sum +=
          static_cast<double>(tensor.facts.numbers) * (std::log2(tensor.facts.rms) - tensor.factor);
  const double mean = sum / static_cast<double>(std::max<std::int64_t>(matrix_numbers_, 1));
  return mean + kGaussianBits - bits;
}

}  // namespace gbcompress
