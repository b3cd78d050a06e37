#include "quantize/allocation/bit_allocation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "artifact/integers/integers.h"
#include "artifact/integers/transform.h"
#include "artifact/sections/elements.h"
#include "base/checked.h"
#include "base/fresh_memory.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "format/container.h"
#include "format/language_model.h"
#include "format/tensor_bundle.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "quantize/change.h"
#include "quantize/feedback/assumed_model.h"
#include "quantize/matrix.h"
#include "quantize/packed.h"
#include "quantize/transforms/axis.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Steps grow with this power of a tensor's rms, and with the root of its size
/// (docs/explanation/adr/0007-steps-without-data.md).
constexpr double kRmsPower = 0.75;
/// So far from the median rms; beyond it they grow with the rms, as those of slices do.
constexpr double kNearOctaves = 10;
/// Where all tensors have one step: so little does a tensor's rms count, and vectors have finer
/// ones.
constexpr double kTotalPower = 0.03, kTotalVectorOctaves = -3;
/// The largest x, and what steps are clamped to: the range of float32.
constexpr double kMostOctaves = 150;
/// Numbers of all samples together, by what coding one takes.
constexpr std::int64_t kSmallSamples = 400'000, kLanesSamples = 4'000'000, kLeastSample = 4096;
/// Integers up to which a file takes the time for the profile small.
constexpr std::int64_t kMostSmall = 4'000'000;
/// Numbers that may be in work at a time, where no tensor has more.
constexpr std::int64_t kSideBySide = 1 << 23;
/// A sample's error stays below what may be lost by this factor.
constexpr double kSampleRoom = 0.97;

/// Approximate relative error of matrices in a file of so many bits per weight.
double error_of_bits(double bits) { return std::clamp(std::exp2(-2 * bits), 1e-6, 0.25); }

/// Rounding a sum to its element type makes an error at most twice as large.
constexpr double kRounding = 4;

/// About the relative error of the finest integers there are, with a margin of two.
double finest_error(const TensorAllocation& tensor, std::span<const float> values) {
  float largest = 0;
  for (const float value : values) largest = std::max(largest, std::fabs(value));
  const double step = static_cast<double>(largest) / kMaxMagnitude;
  const double error = step * step / 6 / (tensor.facts.rms * tensor.facts.rms);
  return tensor.base ? kRounding * error : error;
}

/// Whether integers on a base can have that error. Sums are float32, also those of float64.
bool keeps_change(const TensorEntry& source, const TensorEntry& before,
                  std::span<const float> values, double max_error) {
  return source.dtype != DType::kF64 ||
         kRounding * change_sums(source, before, elements_of(values, source.dtype)).relative() <=
             max_error;
}

std::vector<float> differences(std::vector<float> values, const TensorEntry& base) {
  const std::vector<float> before = numbers_of(base);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] -= before[i];
  return values;
}

/// Whether weights are rounded for likely inputs: errors of the weights themselves grow.
bool assumes_inputs(const WeightsOptions& options) {
  return options.max_bytes && options.measure == ErrorMeasure::kRelative &&
         (!options.statistics || options.statistics_use.feedback);
}

/// Share of the bits that cosines have to save.
constexpr double kWorthCosines = 0.02;

/// Bits a value of a palette from which on lines may be smaller.
constexpr double kManyBits = 4;

/// Looks for a table that tells the tensor exactly. What may have losses needs no signs of zeros.
void find_table(TensorAllocation& tensor, std::span<const float> values) {
  if (values.empty()) return;
  const TensorEntry& source = *tensor.source;
  const bool exact = tensor.kind == WeightKind::kExact;
  std::optional<LevelTable> table = find_levels(source, values, exact);
  // A grid of many positions has many values.
  const bool many = !table || table->bits > kManyBits * static_cast<double>(values.size());
  if (many && exact && !tensor.not_finite)
    if (const auto lines = predicted_lines(values, source.shape, source.dtype))
      if (auto predicted = line_table(source, values, *lines)) table = std::move(predicted);
  if (table) tensor.levels = std::make_shared<const LevelTable>(*std::move(table));
}

/// How the integers lie, as far as a graph or measured inputs tell: a wide kernel has the shape of
/// a stack, and its inputs are those of a matrix.
/// @param measured  whether there are statistics of its inputs
IntegerGrid grid_of(const TensorEntry& tensor, const TensorHint& hint, bool measured) {
  if (hint.rows > 0) return IntegerGrid{hint.rows, hint.cols, 0};
  const auto& shape = tensor.shape;
  if (measured || !is_stack(shape)) return default_grid(shape);
  return default_grid({shape[0] * shape[1], shape[2]});
}

/// Matrices of which a grid's rows are a stack.
std::int64_t slices_of(const TensorEntry& tensor, const IntegerGrid& grid) {
  const auto& shape = tensor.shape;
  return is_stack(shape) && grid.rows % (shape[0] * shape[1]) == 0 ? shape[0] : 1;
}

/// Whether a graph does more than look up rows.
bool is_multiplied(const TensorHint& hint) {
  return std::any_of(hint.consumers.begin(), hint.consumers.end(),
                     [](const std::string& op) { return op != "Gather"; });
}

/// log2 of a matrix's step where x is 0: of a stack, that of one of its matrices.
double factor_of(const TensorAllocation& tensor, bool total) {
  const double rms = std::log2(tensor.facts.rms);
  if (total) return kTotalPower * rms + (tensor.grid.rows == 1 ? kTotalVectorOctaves : 0);
  const std::int64_t each = tensor.facts.numbers / tensor.slices;
  return kRmsPower * rms + std::log2(static_cast<double>(each)) / 2;
}

/// Some of what a matrix's integers are made of.
StepMatrix sampled(const TensorAllocation& tensor, std::int64_t most) {
  const TensorEntry& source = *tensor.source;
  if (tensor.base || tensor.axis >= 0 || tensor.grid.rows == 1)
    return sample_of(tensor.grid, tensor.numbers(), tensor.facts, most);
  const std::size_t size =
      static_cast<std::size_t>(tensor.grid.cols * dtype_bits(source.dtype) / 8);
  const auto read = [&](std::size_t row, std::span<float> values) {
    const auto bytes = source.bytes.subspan(row * size, size);
    floats_of(bytes, source.dtype, values);
    check_mapped(bytes);
  };
  if (auto sample = sample_of_rows(tensor.grid, read, tensor.facts, most))
    return *std::move(sample);
  return sample_of(tensor.grid, tensor.numbers(), tensor.facts, most);
}

/// Whether lines along a dimension run through several rows of the tensor's grid.
bool lies_across(int axis, const TensorAllocation& tensor) {
  std::int64_t numbers = 1;  // of a line and what lies between its numbers
  const auto& shape = tensor.source->shape;
  for (std::size_t d = static_cast<std::size_t>(axis); d < shape.size(); ++d) numbers *= shape[d];
  return numbers > tensor.grid.cols;
}

/// @param values   of the tensor
/// @param numbers  what the matrix's integers are made of
/// @return whether integers keep it
bool set_facts(TensorAllocation& tensor, const std::vector<float>& values,
               const std::vector<float>& numbers, bool rows_apart, const TensorHint& hint,
               std::optional<double> max_error) {
  const bool cosines = tensor.axis >= 0;
  std::vector<RowSize> sizes = sizes_of_rows(tensor.grid, cosines ? values : numbers);
  const double rms = rms_of(sizes);
  if (cosines)
    sizes =
        sizes_of_cosines(std::move(sizes), tensor.grid, numbers, lies_across(tensor.axis, tensor));
  tensor.facts =
      matrix_facts(tensor.grid, std::move(sizes), rows_apart, hint.row_scales, tensor.slices);
  tensor.facts.rms = rms;
  if (!tensor.base && !tensor.facts.fits) return false;
  if (max_error && finest_error(tensor, numbers) > *max_error) return false;
  // What a row of a change loses is little of the row.
  if (tensor.base) tensor.facts.sizes.clear();
  return true;
}

/// Cosines or values; of values rows or blocks of them, and whether errors are spread for what is
/// likely of the inputs.
/// @param error    about the relative error that the tensor may have
/// @param moments  whether statistics tell how errors make up for each other
void choose_form(TensorAllocation& tensor, std::span<const float> values,
                 const WeightsOptions& options, const LikelyInputs& inputs, double error,
                 bool moments) {
  const bool likely = assumes_inputs(options) && assumed_pieces(inputs, tensor.grid.cols);
  const double least_saved = moments || likely ? kWave : kWorthCosines;
  if (!tensor.base) tensor.axis = cosine_axis(values, tensor.source->shape, error, least_saved);
  if (tensor.axis >= 0) return;
  tensor.assumed = likely && !tensor.base;
  // Blocks of columns are blocks of values, not of cosines. Taps of a kernel are one filter, whose
  // errors make up for each other.
  if (!options.statistics && !options.base() && !likely) tensor.grid = divided(tensor.grid, values);
}

/// Whether all elements are the same bytes.
bool is_repeated(const TensorEntry& tensor) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  if (size == 0 || dtype_bits(tensor.dtype) % 8 != 0 || tensor.bytes.size() < size) return false;
  return std::equal(tensor.bytes.begin() + static_cast<std::ptrdiff_t>(size), tensor.bytes.end(),
                    tensor.bytes.begin());
}

/// Of an exact tensor with more than kManyElements, the first kFirstElements decide whether a table
/// is tried, so that the other elements are not converted to float32.
constexpr std::int64_t kManyElements = std::int64_t{1} << 22, kFirstElements = 1 << 20;

/// A larger palette of the first rows does not imply one of the whole tensor.
constexpr std::int64_t kManyValues = 1024;

/// Whether elements of 2 bytes have more distinct values than a palette may have.
bool has_many_values(std::span<const std::byte> elements) {
  std::vector<char> seen(std::size_t{1} << 16);
  std::int64_t values = 0;
  for (std::size_t i = 0; i < elements.size() && values <= kMaxPalette; i += 2) {
    std::uint16_t value;
    std::memcpy(&value, elements.data() + i, sizeof value);
    values += !seen[value];
    seen[value] = 1;
  }
  return values > kMaxPalette;
}

/// Whether the first rows of a large tensor rule out a table for it.
bool has_no_table(const TensorEntry& source) {
  const IntegerGrid grid = default_grid(source.shape);
  if (!is_real(source.dtype) || grid.size() <= kManyElements || is_repeated(source)) return false;
  TensorEntry some = source;
  const std::int64_t rows = source.shape.front(), row = grid.size() / rows;
  some.shape.front() = std::clamp<std::int64_t>(kFirstElements / row, 1, rows);
  some.bytes = source.bytes.first(static_cast<std::size_t>(some.shape.front() * row) *
                                  static_cast<std::size_t>(dtype_bits(source.dtype) / 8));
  if (!is_finite(some)) return false;
  TensorAllocation part;
  part.source = &some;
  part.kind = WeightKind::kExact;
  find_table(part, numbers_of(some));
  return !part.levels || (part.levels->form.palette >= kManyValues &&
                          dtype_bits(source.dtype) == 16 && has_many_values(source.bytes));
}

}  // namespace

std::int64_t TensorAllocation::elements() const noexcept {
  std::int64_t n = 1;
  for (const std::int64_t side : source->shape) n *= side;
  return n;
}

std::vector<float> TensorAllocation::numbers() const {
  std::vector<float> values = numbers_of(*source);
  if (base) return differences(std::move(values), *base);
  return axis < 0 ? values : to_cosines(values, source->shape, axis);
}

int TensorAllocation::step(double x) const noexcept {
  if (own_step) return std::min(*own_step, coarsest);
  const double k =
      std::nearbyint(kStepsPerOctave * std::clamp(x + factor, -kMostOctaves, kMostOctaves));
  return std::min(static_cast<int>(k), coarsest);
}

double TensorAllocation::weight(double x) const noexcept {
  if (own_step) return 1;
  const double asked = x + factor - static_cast<double>(step(x)) / kStepsPerOctave;
  return std::exp2(-2 * std::clamp(asked, -0.5 / kStepsPerOctave, 0.5 / kStepsPerOctave));
}

TensorBundle with_equal_shared(TensorBundle weights, const WeightsOptions& options) {
  const GlobSet globs(options.exact);
  const auto exact = [&](const TensorEntry& tensor) {
    return is_exact(options) || tensor.exact || globs.matches(tensor.name);
  };
  share_equal(weights, exact);
  share_equal(weights, [&](const TensorEntry& tensor) { return !exact(tensor); });
  return weights;
}

bool is_bytes(const TensorEntry& tensor) noexcept {
  return tensor.name == kContainerName && tensor.dtype == DType::kU8;
}

const TensorTarget* target_of(const WeightsOptions& options, const TensorEntry& tensor) {
  return target_of(options, whole_name(tensor));
}

const TensorTarget* target_of(const WeightsOptions& options, const std::string& name) {
  const TensorTarget* found = nullptr;
  for (const TensorTarget& target : options.targets)
    if (matches_glob(target.match, name)) found = &target;
  return found;
}

std::vector<float> numbers_of(const TensorEntry& tensor) {
  if (!is_real(tensor.dtype)) return {};
  std::vector<float> numbers;
  resize_fresh(numbers, static_cast<std::size_t>(checked_elements(tensor.shape, "a tensor")));
  floats_of(tensor.bytes, tensor.dtype, numbers);
  check_mapped(tensor.bytes);
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
  bounded_tasks(sizes, kSideBySide, threads, [&](std::size_t i, int mine) {
    throw_if_interrupted();
    body(i, mine);
  });
}

BitAllocation::BitAllocation(const TensorBundle& weights, const WeightsOptions& options,
                             bool layers)
    : finder_(is_exact(options) ? options.bases : std::span<const BaseModel>(), layers),
      hints_(hints_of(weights)),
      predicts_tokens_(predicts_tokens(weights)),
      measured_(options.statistics ? OwnedStatistics(weights, *options.statistics)
                                   : OwnedStatistics()),
      quantizer_(options.quantizer),
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
  const GlobSet exact(options.exact);
  const std::vector<bool> packed = packed_parameters(weights);
  for_bounded(sizes, threads_, [&](std::size_t i, int) {
    tensors_[i] = classify(i, weights.tensors[i], options, exact, packed[i]);
    release_pages(weights.tensors[i].bytes);
  });
  find_ties(weights);
  prefer_exact(options);
  if (options.base()) bound_changes(options);
  assume_inputs();
  std::int64_t integers = 0;
  bool fits = !options.lanes;
  for (const TensorAllocation& tensor : tensors_) {
    if (tensor.tied || is_bytes(*tensor.source)) continue;
    numbers_ += tensor.elements();
    if (tensor.kind == WeightKind::kMatrix) matrix_numbers_ += tensor.facts.numbers;
    const bool whole =
        tensor.levels || (is_codable(tensor.source->dtype) && !is_real(tensor.source->dtype));
    if (tensor.unchanged || tensor.constant || (tensor.kind == WeightKind::kExact && !whole))
      continue;
    integers += tensor.elements();
    fits = fits && (whole || fits_small({&tensor.grid, 1}));
  }
  profile_ = fits && integers <= kMostSmall ? CodecProfile::kSmall : CodecProfile::kLanes;
  if (options.measure != ErrorMeasure::kTotal) {
    follow_far_sizes();
    refine_heads();
  }
  if (options.statistics) use_statistics(options);
  take_samples();
  own_steps(options);
  // Samples are too small for a head and stripes of their own: estimated_bits() tells what they
  // take.
  for (TensorAllocation& tensor : tensors_) tensor.grid.lanes = profile_ == CodecProfile::kLanes;
}

bool BitAllocation::match_exactly(TensorAllocation& tensor) const {
  const TensorEntry& source = *tensor.source;
  if (!is_bytes(source)) tensor.match = finder_.find(source);
  tensor.unchanged = tensor.match.unchanged;
  if (tensor.unchanged) return true;
  return !tensor.match.any() && has_no_table(source);
}

/// Whether the base has a tensor bit for bit.
bool BitAllocation::match_namesake(TensorAllocation& tensor, const TensorEntry* before) {
  tensor.unchanged = before && !is_bytes(*tensor.source) &&
                     std::ranges::equal(before->bytes, tensor.source->bytes);
  return tensor.unchanged;
}

TensorAllocation BitAllocation::classify(std::size_t i, const TensorEntry& source,
                                         const WeightsOptions& options, const GlobSet& exact,
                                         bool packed) const {
  TensorAllocation tensor;
  tensor.source = &source;
  if (const TensorTarget* target = target_of(options, source)) tensor.max_error = target->max_error;
  const auto at = hints_.find(source.name);
  const TensorHint hint = at == hints_.end() ? TensorHint{} : at->second;
  tensor.grid = grid_of(source, hint, measured_.has_inputs(i));
  const TensorEntry* before = is_exact(options) ? nullptr : entry_before(options.base(), source);
  if (is_exact(options) ? match_exactly(tensor) : match_namesake(tensor, before)) return tensor;
  tensor.packed = packed;
  const std::vector<float> values = numbers_of(source);
  if (!source.exact) tensor.not_finite = not_finite(source, values);
  const bool asked = !is_exact(options);
  if (asked && !source.exact && !is_bytes(source) && !exact.matches(source.name) &&
      !(!source.whole.empty() && exact.matches(source.whole)))
    tensor.kind = weight_kind(source, values, packed, &hint);
  tensor.constant = !source.bytes.empty() && is_repeated(source);
  if (!tensor.constant && !before && !tensor.match.any() && !source.exact)
    find_table(tensor, values);
  if (tensor.kind == WeightKind::kExact) return tensor;
  const bool total = options.measure == ErrorMeasure::kTotal;
  if (before && is_finite(*before)) {
    tensor.before = before;
    const double changed = squares_of(differences(values, *before));
    const double most = options.max_error.value_or(kMostRelativeError);
    if (changed == 0 || !keeps_change(source, *before, values, most)) {
      tensor.kind = WeightKind::kExact;
      return tensor;
    }
    if (changed < squares_of(values)) tensor.base = before;
  }
  // Short floats are as exact as the tensor is large, which a change is not.
  const bool vector = tensor.kind == WeightKind::kVector && !tensor.base;
  if (vector && !total) return tensor;
  tensor.kind = WeightKind::kMatrix;
  choose_form(tensor, values, options, hint.inputs, likely_error_,
              measured_.has_moments(i, options.statistics_use));
  // Step sizes of rows serve outputs; a target error takes the fewest bits without them. Waves
  // along the outputs are none themselves.
  tensor.rows_apart = !total && !options.max_error && tensor.axis != 0 && hint.row_steps;
  tensor.slices = slices_of(source, tensor.grid);
  tensor.multiplied = predicts_tokens_ || is_multiplied(hint);
  std::vector<float> made;
  if (tensor.base || tensor.axis >= 0) made = tensor.numbers();
  if (!set_facts(tensor, values, made.empty() ? values : made, tensor.rows_apart, hint,
                 tensor.max_error ? tensor.max_error : options.max_error)) {
    tensor.kind = WeightKind::kExact;
    return tensor;
  }
  tensor.factor = factor_of(tensor, total);
  return tensor;
}

void BitAllocation::find_ties(const TensorBundle& weights) {
  const std::vector<std::size_t> owners = first_equals(weights);
  // A tensor that the base has costs nothing, whatever it shares its bytes with.
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (owners[i] != i && (!tensors_[i].unchanged || tensors_[owners[i]].unchanged))
      tensors_[i].tied = owners[i];
}

/// A tensor stands for those tied to it, each of which changed by another amount since the base.
void BitAllocation::bound_changes(const WeightsOptions& options) {
  const auto change_of = [](const TensorAllocation& tensor) {
    return change_sums(*tensor.source, *tensor.before, tensor.source->bytes).change;
  };
  for (const TensorAllocation& tensor : tensors_) {
    if (!tensor.tied || !tensor.before || !is_real(tensor.source->dtype)) continue;
    TensorAllocation& owner = tensors_[*tensor.tied];
    if (owner.kind == WeightKind::kExact) continue;
    const double own = owner.base ? change_of(owner) : squares_of(numbers_of(*owner.source));
    const double least = std::min(own, change_of(tensor));
    owner.share = std::min(owner.share, least / own);
    const double allowed = options.max_error.value_or(kMostRelativeError) * owner.share;
    if (owner.kind == WeightKind::kMatrix && finest_error(owner, owner.numbers()) > allowed)
      owner.kind = WeightKind::kExact;
  }
}

/// Steps of tensors far from the others' sizes grow with their rms itself.
void BitAllocation::follow_far_sizes() {
  std::vector<std::pair<double, std::int64_t>> sizes;  // log2 of the rms, numbers
  std::int64_t all = 0;
  for (const TensorAllocation& tensor : tensors_) {
    if (tensor.kind != WeightKind::kMatrix || tensor.tied) continue;
    sizes.emplace_back(std::log2(tensor.facts.rms), tensor.facts.numbers);
    all += tensor.facts.numbers;
  }
  std::sort(sizes.begin(), sizes.end());
  double median = 0;
  std::int64_t before = 0;
  for (const auto& [size, numbers] : sizes) {
    median = size;
    before += numbers;
    if (2 * before >= all) break;
  }
  for (TensorAllocation& tensor : tensors_) {
    if (tensor.kind != WeightKind::kMatrix || tensor.tied) continue;
    const double octaves = std::log2(tensor.facts.rms) - median;
    const double far = octaves - std::clamp(octaves, -kNearOctaves, kNearOctaves);
    tensor.factor += (1 - kRmsPower) * far;
  }
}

void BitAllocation::take_samples() {
  std::vector<std::int64_t> sizes;
  std::int64_t matrices = 0;
  for (const TensorAllocation& tensor : tensors_) {
    const bool sampled = tensor.kind == WeightKind::kMatrix && !tensor.tied;
    sizes.push_back(sampled ? tensor.facts.numbers : 0);
    matrices += sampled;
  }
  if (matrices == 0) return;
  const std::int64_t all = profile_ == CodecProfile::kSmall ? kSmallSamples : kLanesSamples;
  const std::int64_t each = std::max(kLeastSample, all / matrices);
  for_bounded(sizes, threads_, [&](std::size_t i, int) {
    TensorAllocation& tensor = tensors_[i];
    if (sizes[i] == 0) return;
    tensor.sample.emplace(sampled(tensor, each));
    // The coarsest step of which the sample loses no more than may be lost; errors grow with steps.
    const int middle = nearest_step(static_cast<float>(tensor.facts.rms));
    const int low = std::max(middle - 6 * kStepsPerOctave, tensor.sample->finest());
    const int high = std::max(middle + 4 * kStepsPerOctave, low);
    const auto holds = [&](int k) {
      return tensor.sample->choose(k, quantizer_, 1).relative_error <=
             kSampleRoom * kMostRelativeError;
    };
    // Where rows bound their own steps, mostly at all.
    tensor.coarsest = holds(high) ? high : last_that_holds(low, high - 1, holds);
    release_pages(tensor.source->bytes);
  });
  sampled_bits_.resize(tensors_.size());
  lowest_ = 2 * kMostOctaves;
  highest_ = -2 * kMostOctaves;
  for (const TensorAllocation& tensor : tensors_) {
    if (!tensor.sample) continue;
    const auto x = [&](int k) { return static_cast<double>(k) / kStepsPerOctave - tensor.factor; };
    lowest_ = std::min(lowest_, x(tensor.sample->finest()));
    highest_ = std::max(highest_, x(tensor.coarsest));
  }
}

/// Bits of integers in a file of that profile, about.
double coded_bits(CodecProfile profile, const CodedValues& values) {
  if (profile != CodecProfile::kSmall) return estimated_bits(profile, values.grid, values.integers);
  IntegerEncoder stream(CodecProfile::kSmall);
  stream.add(values.grid, values.integers);
  return stream.ideal_bits();
}

/// Without feedback, and without the other one of a pair.
void BitAllocation::round_alone(TensorAllocation& tensor) {
  for (TensorAllocation& first : tensors_) {
    if (!first.model || !first.model->second) continue;
    TensorAllocation& second = tensors_[*first.model->second];
    if (&first != &tensor && &second != &tensor) continue;
    second.second = false;
    first.model = nullptr;
  }
  tensor.model = nullptr;
}

/// Of matrices that have their own size or error, from samples. Rounding with feedback bounds no
/// error of the weights themselves.
void BitAllocation::own_steps(const WeightsOptions& options) {
  for (TensorAllocation& tensor : tensors_) {
    if (!tensor.sample) continue;
    const TensorTarget* target = target_of(options, *tensor.source);
    if (!target) continue;
    if (target->max_error) round_alone(tensor);
    const auto holds = [&](int k) {
      const StepMatrix::Chosen chosen = tensor.sample->choose(k, quantizer_, 1);
      if (target->max_error) return chosen.relative_error <= *target->max_error;
      return coded_bits(profile_, chosen.values) >=
             *target->bits * static_cast<double>(tensor.sample->grid().size());
    };
    const int low = tensor.sample->finest(), high = std::max(tensor.coarsest, low);
    tensor.own_step = holds(high) ? high : last_that_holds(low, high - 1, holds);
  }
}

std::vector<double> BitAllocation::expected_bytes(double x) const {
  IntegerEncoder stream(CodecProfile::kSmall);
  std::vector<double> of_tensor(tensors_.size());
  const bool small = profile_ == CodecProfile::kSmall;
  std::vector<CodedValues> chosen(tensors_.size());
  parallel_tasks(threads_, static_cast<std::int64_t>(tensors_.size()), [&](std::int64_t n) {
    const auto i = static_cast<std::size_t>(n);
    const TensorAllocation& tensor = tensors_[i];
    if (!tensor.sample) return;
    const int k = std::max(tensor.step(x), tensor.sample->finest());
    if (small) {
      chosen[i] = tensor.sample->choose(k, quantizer_, 1).values;
      return;
    }
    const auto [at, fresh] = sampled_bits_[i].emplace(k, 0.0);
    if (fresh) {
      const CodedValues values = tensor.sample->choose(k, quantizer_, 1).values;
      at->second = estimated_bits(profile_, values.grid, values.integers);
    }
    of_tensor[i] = at->second;
  });
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorAllocation& tensor = tensors_[i];
    if (!tensor.sample) continue;
    if (small) {
      const double before = stream.ideal_bits();
      stream.add(chosen[i].grid, chosen[i].integers);
      of_tensor[i] = stream.ideal_bits() - before;
    }
    of_tensor[i] *= static_cast<double>(tensor.facts.numbers) /
                    static_cast<double>(tensor.sample->grid().size()) / 8;
    of_tensor[i] += static_cast<double>(tensor.facts.row_steps.size()) / 2;
  }
  return of_tensor;
}

double BitAllocation::start(double bits) const {
  double sum = 0;
  for (const TensorAllocation& tensor : tensors_)
    if (tensor.sample)
      sum +=
          static_cast<double>(tensor.facts.numbers) * (std::log2(tensor.facts.rms) - tensor.factor);
  const double mean = sum / static_cast<double>(std::max<std::int64_t>(matrix_numbers_, 1));
  return mean + kGaussianBits - bits;
}

}  // namespace gbcompress
