#include <algorithm>
#include <cmath>
#include <cstdio>

#include "base/file.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "weights/size_search.h"
#include "weights/store.h"

namespace gbcompress {
namespace {

/// Files that are smaller than this many times their settings go without those.
constexpr std::int64_t kSettingsShare = 200;
/// Whole files made for one size, where numbers are few and where they are many.
constexpr int kMostFiles = 6, kMostLargeFiles = 3;
constexpr std::int64_t kMany = 20'000'000;
/// Steps of all tensors together are found at this resolution, of octaves.
constexpr double kTotalResolution = 1.0 / 64;

void check(const WeightsOptions& options) {
  if (options.max_bytes && options.max_error)
    throw Error(Errc::kUsage, "a size and an error contradict each other; ask for one of them");
  if (options.max_bytes && *options.max_bytes < 1)
    throw Error(Errc::kUsage, "a size of at least 1 byte can be asked");
  if (options.max_error && !(*options.max_error > 0 && *options.max_error < 1))
    throw Error(Errc::kUsage, "an error between 0 and 1 can be asked");
  if (options.base && options.measure == ErrorMeasure::kTotal)
    throw Error(Errc::kUsage,
                "what changed since a base is measured tensor by tensor; leave the "
                "measure relative");
}

/// Refuses a base that is another model.
void check_base(const TensorBundle& weights, const BaseModel& base) {
  bool any = false;
  for (const TensorEntry& tensor : weights.tensors) {
    const TensorEntry* before = base.find(tensor.name);
    any = any || before;
    if (before && (before->dtype != tensor.dtype || before->shape != tensor.shape))
      throw Error(Errc::kShapeMismatch,
                  "tensor " + printable(tensor.name) +
                      " has another type or shape in the base; name the model that this one was "
                      "made from");
  }
  if (!any && !weights.tensors.empty())
    throw Error(Errc::kUsage,
                "the base has no tensor of this model; name the model that this one "
                "was made from");
}

std::string kept_settings(const TensorBundle& weights, const WeightsOptions& options) {
  if (options.keep_settings) return options.settings;
  std::int64_t bytes = options.max_bytes.value_or(0);
  if (bytes == 0)
    for (const TensorEntry& tensor : weights.tensors)
      bytes += static_cast<std::int64_t>(tensor.bytes.size());
  const auto settings = static_cast<std::int64_t>(options.settings.size());
  return bytes < kSettingsShare * settings ? "" : options.settings;
}

/// Where the size that is wanted lies, as far as samples tell.
double expected_place(const WeightsPlan& plan, std::int64_t wanted, std::int64_t others) {
  const std::int64_t left = std::max<std::int64_t>(wanted - others, 1);
  const double numbers = static_cast<double>(plan.matrix_numbers());
  SizeSearch search(left, plan.matrix_numbers(), plan.lowest(), plan.highest());
  double x = plan.start(8 * static_cast<double>(left) / numbers);
  while (const auto next = search.next(x)) {
    x = *next;
    search.tried(x, static_cast<std::int64_t>(plan.expected_bytes(x)));
  }
  return search.best().value_or(plan.highest());
}

/// The finest steps whose file has the size that is wanted, or the coarsest that may be.
void place_size(const WeightsPlan& plan, WeightsStore& store, std::int64_t wanted) {
  const std::int64_t numbers = plan.matrix_numbers();
  SizeSearch search(wanted, numbers, plan.lowest(), plan.highest());
  const double start = expected_place(plan, wanted, store.size());
  double last = NAN;
  const int most = numbers > kMany ? kMostLargeFiles : kMostFiles;
  for (int files = 0; files < most; ++files) {
    const auto x = search.next(start);
    if (!x) break;
    const std::int64_t bytes = store.place(last = *x);
    search.tried(*x, bytes);
  }
  const double best = search.best().value_or(plan.highest());
  if (best != last) store.place(best);
}

/// The coarsest steps of which all tensors together lose at most that.
void place_total_error(const WeightsPlan& plan, WeightsStore& store, double most) {
  double fits = plan.lowest(), fails = plan.highest() + kTotalResolution;
  double x = plan.start(-std::log2(most) / 2);
  for (int tries = 0; tries < kMostFiles + 2 && fails - fits > kTotalResolution; ++tries) {
    x = std::clamp(x, fits + kTotalResolution / 2, fails - kTotalResolution / 2);
    const double error = store.total_error(x);
    (error <= most ? fits : fails) = x;
    // The step before the next one that would fail: errors are known to some thousandths.
    const double octaves = std::log2(most / std::max(error, 1e-30)) / 2;
    x += octaves > 0 ? std::max(octaves - kTotalResolution / 4, kTotalResolution)
                     : std::min(octaves, -kTotalResolution);
  }
  store.place_total(fits, most);
}

/// Of the tensors that have an error, all together.
/// @param tensors  one for each of the weights
double total_error(const std::vector<StoredTensor>& tensors, const TensorBundle& weights) {
  double error = 0, squares = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const StoredTensor& stored = tensors[i];
    if (stored.stored == "tied" || stored.error == 0) continue;
    double sum = 0;
    for (const float value : numbers_of(weights.tensors[i]))
      sum += static_cast<double>(value) * static_cast<double>(value);
    error += stored.error * sum;
    squares += sum;
  }
  return squares > 0 ? error / squares : 0;
}

void judge(WeightsReport& report, const WeightsOptions& options) {
  char text[200];
  if (options.max_bytes && report.output_bytes > *options.max_bytes) {
    report.target_met = false;
    report.target_note =
        "at most " + std::to_string(*options.max_bytes) + " bytes were asked, the file has " +
        std::to_string(report.output_bytes) +
        ", the smallest in which no tensor of weights loses more than half of its squares";
  }
  if (!options.max_error) return;
  double worst = options.measure == ErrorMeasure::kTotal ? report.total_error : 0;
  if (options.measure == ErrorMeasure::kRelative)
    for (const StoredTensor& tensor : report.tensors) worst = std::max(worst, tensor.error);
  if (worst <= *options.max_error) return;
  report.target_met = false;
  std::snprintf(text, sizeof text, "an error of at most %g was asked; the file has %.3g",
                *options.max_error, worst);
  report.target_note = text;
}

/// What the file has: its size, and each tensor beside the source.
WeightsReport measure(const ArtifactReader& artifact, const TensorBundle& weights,
                      const WeightsOptions& options) {
  WeightsReport report;
  report.output_bytes = artifact.file_bytes();
  report.identity = artifact.identity();
  TensorDecoder decode;
  if (!artifact.base().empty())
    decode = [&, base = options.base->source_for(artifact)](std::size_t i) {
      return decode_tensor(artifact, i, {.base = base});
    };
  report.tensors = compare_with_source(artifact, weights, decode);
  for (const StoredTensor& tensor : report.tensors)
    if (tensor.stored != "tied") report.parameters += tensor.elements();
  report.total_error = total_error(report.tensors, weights);
  judge(report, options);
  return report;
}

}  // namespace

std::string_view measure_name(ErrorMeasure measure) noexcept {
  return measure == ErrorMeasure::kTotal ? "total" : "relative";
}

std::optional<ErrorMeasure> parse_measure(std::string_view name) noexcept {
  for (const ErrorMeasure measure : {ErrorMeasure::kRelative, ErrorMeasure::kTotal})
    if (name == measure_name(measure)) return measure;
  return {};
}

WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options) {
  check(options);
  if (options.base) check_base(weights, *options.base);
  check_writable(output, options.overwrite);
  const WeightsPlan plan(weights, options);
  WeightsStore store(plan, options, output.parent_path(), kept_settings(weights, options));
  if (plan.matrix_numbers() > 0) {
    if (options.max_bytes)
      place_size(plan, store, *options.max_bytes);
    else if (options.measure == ErrorMeasure::kTotal)
      place_total_error(plan, store, *options.max_error);
    else
      store.place_error(*options.max_error);
  }
  WeightsReport report;
  store.writer().write(output, options.overwrite, [&](const ArtifactReader& artifact) {
    report = measure(artifact, weights, options);
    if (options.look) options.look(artifact);
  });
  return report;
}

}  // namespace gbcompress
