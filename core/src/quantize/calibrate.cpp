#include "gbcompress/calibrate.h"

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "artifact/copied.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"
#include "gbcompress/atomic_file.h"
#include "quantize/candidates.h"

namespace gbcompress {
namespace {

/// At a further size so many candidates are tried: those with the least errors at the size before.
constexpr std::size_t kKept = 3;
/// Files are written anew at most so often where refitted vectors take more bytes than before;
/// mantissa bits of these, of which other vectors have 7.
constexpr int kRefits = 3, kRefittedBits = 9;
/// Candidates that are made whatever the time is: without statistics, and the recommended one.
constexpr std::size_t kAlways = 2;
/// Without a time limit others are made while those before have at most so many weights together.
constexpr std::int64_t kManyWeights = 60'000'000;
/// Multiply-adds up to which matrices are fitted layer by layer: their systems are as large as
/// their inputs are wide, and each size takes some walks.
constexpr double kMostWork = 3e10;

}  // namespace

struct Calibration::Impl {
  struct Tried {
    CandidateUse candidate;
    CalibratedFile made;
    /// Files that have the size come first, then those of more quality, where it is measured, then
    /// those of less error.
    std::tuple<bool, double, double> rank() const {
      const double quality = made.quality.value_or(0);
      return {!made.report.target_met, std::isnan(quality) ? HUGE_VAL : -quality,
              std::isnan(made.error) ? HUGE_VAL : made.error};
    }
  };

  const TensorBundle& weights;
  const Statistics& statistics;
  Evaluator& evaluator;
  CalibrationOptions options;
  std::vector<CandidateUse> candidates = {};  ///< of the next size; empty: all
  /// Where the searches of a size begin: steps of the first file under statistics that has it, and
  /// before there is one, those of the size before.
  std::optional<double> steps = {};
  bool steps_of_size = false;
  std::int64_t refitted_bytes = 0;  ///< that refitted vectors take more than those of the file
  int files = 0;

  std::filesystem::path next_file() { return options.folder / (std::to_string(files++) + ".gbz"); }

  WeightsReport write(const std::filesystem::path& file, const CandidateUse& candidate,
                      std::int64_t bytes) {
    WeightsOptions own = options.weights;
    own.max_bytes = bytes;
    own.overwrite = true;
    if (candidate.statistics) {
      own.steps = steps;
      own.statistics = &statistics;
      own.statistics_use = candidate.use;
      if (candidate.sequential) own.sequential = evaluator.sequential();
    }
    WeightsReport report;
    const auto work = [&] { report = compress_weights(weights, file, own); };
    if (options.run)
      options.run(work);
    else
      work();
    if (candidate.statistics && report.target_met && !steps_of_size) {
      steps = report.steps;
      steps_of_size = true;
    }
    return report;
  }

  /// Replaces vectors of the file; its integers stay. @return whether there were some
  bool refit(const std::filesystem::path& file, WeightsReport& report) {
    const auto vectors = evaluator.refitted(file);
    if (vectors.empty()) return false;
    Replacements replaced{.mantissa_bits = kRefittedBits};
    for (const auto& [name, values] : vectors) replaced.values[name] = values;
    const std::vector<std::byte> bytes = with_replaced(ArtifactReader::open(file), replaced);
    AtomicFile output(file, /*overwrite=*/true);
    output.write(bytes);
    output.commit();
    report.output_bytes = static_cast<std::int64_t>(bytes.size());
    report.identity = ArtifactReader::open(file).identity();
    return true;
  }

  /// Vectors of other integers, even of the same candidate in a file 1 % larger, do not fit: what
  /// they correct are sums of rounding errors.
  CalibratedFile made(const CandidateUse& candidate, std::int64_t bytes, bool refits) {
    CalibratedFile result{
        .file = next_file(), .report = {}, .method = candidate.name, .candidates = {}};
    std::int64_t room = bytes - (refits ? refitted_bytes : 0);
    for (int i = 0; i < kRefits; ++i) {
      result.report = write(result.file, candidate, room);
      const std::int64_t before = result.report.output_bytes;
      if (!refits || !refit(result.file, result.report)) break;
      const std::int64_t after = result.report.output_bytes;
      refitted_bytes = std::max<std::int64_t>(0, after - before);
      if (after <= bytes || !result.report.target_met) break;
      room = std::min(room - (after - bytes), bytes - refitted_bytes);
    }
    if (result.report.target_met && result.report.output_bytes > bytes)
      result.report.target_met = false;
    result.error = evaluator.error(result.file);
    result.quality = evaluator.quality(result.file);
    return result;
  }

  /// Multiply-adds of a system for each row of each matrix, about.
  double sequential_work() const {
    double work = 0;
    for (const TensorEntry& tensor : weights.tensors) {
      const auto at = statistics.tensors.find(tensor.name);
      if (at == statistics.tensors.end() || at->second.groups != 1) continue;
      work += static_cast<double>(tensor_elements(tensor.shape)) *
              std::sqrt(static_cast<double>(at->second.input_moment.size()));
    }
    return work;
  }

  CalibratedFile best(std::int64_t bytes);
};

CalibratedFile Calibration::Impl::best(std::int64_t bytes) {
  std::vector<Tried> tried;
  std::vector<CandidateError> errors;
  const bool first = candidates.empty();
  steps_of_size = false;
  const auto add = [&](const CandidateUse& candidate, bool refits = true) {
    tried.push_back({candidate, made(candidate, bytes, refits)});
    const CalibratedFile& file = tried.back().made;
    errors.push_back({candidate.name, file.report.output_bytes, file.error});
    if (options.tell) options.tell(errors.back());
  };
  const auto time = [&] {
    if (tried.size() < kAlways) return true;
    const auto made = static_cast<std::int64_t>(tried.size()) * tried[0].made.report.parameters;
    return options.time ? options.time() : made <= kManyWeights;
  };
  const auto sort = [&] {
    std::ranges::stable_sort(tried, {}, [](const Tried& each) { return each.rank(); });
  };
  /// @return whether it is better than the best before
  const auto derive = [&](const std::optional<CandidateUse>& candidate) {
    const auto same = [&](const CandidateError& each) { return each.name == candidate->name; };
    if (!first || !candidate || !time() || std::ranges::any_of(errors, same)) return false;
    add(*candidate);
    sort();
    return tried[0].candidate.name == candidate->name;
  };
  // What may improve the best one comes before other uses.
  const auto improve = [&] {
    sort();
    while (derive(with_shrunk_moments(tried[0].candidate, statistics))) {
    }
    derive(with_biases_kept(tried[0].candidate, statistics, weights));
  };
  for (const CandidateUse& candidate : first ? candidate_uses(statistics) : candidates) {
    if (!time()) break;
    // The file that there is without data is compared as it is.
    add(candidate, candidate.statistics);
    if (tried.size() == kAlways) improve();
  }
  improve();
  if (first && tried[0].candidate.statistics && sequential_work() <= kMostWork && time() &&
      evaluator.sequential()) {
    add(in_sequence(tried[0].candidate));
    sort();
  }
  candidates.clear();
  for (std::size_t i = 0; i < std::min(kKept, tried.size()); ++i)
    candidates.push_back(tried[i].candidate);
  for (std::size_t i = 1; i < tried.size(); ++i) std::filesystem::remove(tried[i].made.file);
  CalibratedFile result = std::move(tried[0].made);
  result.candidates = std::move(errors);
  return result;
}

Calibration::Calibration(const TensorBundle& weights, const Statistics& statistics,
                         Evaluator& evaluator, CalibrationOptions options)
    : impl_(new Impl{weights, statistics, evaluator, std::move(options)}) {}

Calibration::~Calibration() = default;

CalibratedFile Calibration::best(std::int64_t bytes) { return impl_->best(bytes); }

}  // namespace gbcompress
