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
  std::optional<double> best_steps = {};  ///< of the best file under statistics of the size before
  std::int64_t refitted_bytes = 0;  ///< that refitted vectors take more than those of the file
  int files = 0;

  std::filesystem::path next_file() { return options.folder / (std::to_string(files++) + ".gbz"); }

  /// @param start  steps at which the search for the size begins, if some are known
  WeightsReport write(const std::filesystem::path& file, const CandidateUse& candidate,
                      std::int64_t bytes, std::optional<double> start) {
    WeightsOptions own = options.weights;
    own.max_bytes = bytes;
    own.overwrite = true;
    if (candidate.statistics) {
      own.steps = start;
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
  /// they correct are sums of rounding errors. The file that there is without data is compared as
  /// it is.
  CalibratedFile made(const CandidateUse& candidate, std::int64_t bytes,
                      std::optional<double> start) {
    const bool refits = candidate.statistics;
    CalibratedFile result{
        .file = next_file(), .report = {}, .method = candidate.name, .candidates = {}};
    std::int64_t room = bytes - (refits ? refitted_bytes : 0);
    for (int i = 0; i < kRefits; ++i) {
      result.report = write(result.file, candidate, room, start);
      if (result.report.target_met) start = result.report.steps;
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

  class Candidates;
};

/// The files of one size.
class Calibration::Impl::Candidates {
 public:
  Candidates(Impl& of, std::int64_t bytes) : of_(of), bytes_(bytes) {}

  CalibratedFile best() {
    const bool first = of_.candidates.empty();
    std::optional<double> start;  // steps of the first file under statistics
    for (const CandidateUse& candidate : first ? candidate_uses(of_.statistics) : of_.candidates) {
      if (!time()) break;
      const std::optional<double> steps = add(candidate, start ? start : of_.best_steps);
      if (!start) start = steps;
      if (first && tried_.size() == kAlways) improve();
    }
    if (first) {
      improve();
      fit_layers();
    }
    return take();
  }

 private:
  bool time() const {
    if (tried_.size() < kAlways) return true;
    const auto made = static_cast<std::int64_t>(tried_.size()) * tried_[0].made.report.parameters;
    return of_.options.time ? of_.options.time() : made <= kManyWeights;
  }

  /// @return its steps, of a file under statistics that has the size
  std::optional<double> add(const CandidateUse& candidate, std::optional<double> start) {
    CalibratedFile made = of_.made(candidate, bytes_, start);
    errors_.push_back({candidate.name, made.report.output_bytes, made.error});
    if (of_.options.tell) of_.options.tell(errors_.back());
    std::optional<double> steps;
    if (candidate.statistics && made.report.target_met) steps = made.report.steps;
    tried_.push_back({candidate, std::move(made)});
    std::ranges::stable_sort(tried_, {}, [](const Tried& each) { return each.rank(); });
    return steps;
  }

  /// What comes of the best one; its search begins at that one's steps.
  /// @return whether it is better
  bool derive(const std::optional<CandidateUse>& candidate) {
    const auto same = [&](const CandidateError& each) { return each.name == candidate->name; };
    if (!candidate || !time() || std::ranges::any_of(errors_, same)) return false;
    add(*candidate, tried_[0].made.report.steps);
    return tried_[0].candidate.name == candidate->name;
  }

  void improve() {
    while (derive(with_shrunk_moments(tried_[0].candidate, of_.statistics))) {
    }
    derive(with_biases_kept(tried_[0].candidate, of_.statistics, of_.weights));
  }

  void fit_layers() {
    if (tried_[0].candidate.statistics && of_.sequential_work() <= kMostWork && time() &&
        of_.evaluator.sequential())
      derive(in_sequence(tried_[0].candidate));
  }

  CalibratedFile take() {
    if (tried_[0].candidate.statistics && tried_[0].made.report.target_met)
      of_.best_steps = tried_[0].made.report.steps;
    of_.candidates.clear();
    for (std::size_t i = 0; i < std::min(kKept, tried_.size()); ++i)
      of_.candidates.push_back(tried_[i].candidate);
    for (std::size_t i = 1; i < tried_.size(); ++i) std::filesystem::remove(tried_[i].made.file);
    CalibratedFile result = std::move(tried_[0].made);
    result.candidates = std::move(errors_);
    return result;
  }

  Impl& of_;
  const std::int64_t bytes_;
  std::vector<Tried> tried_;  ///< the best one first
  std::vector<CandidateError> errors_;
};

Calibration::Calibration(const TensorBundle& weights, const Statistics& statistics,
                         Evaluator& evaluator, CalibrationOptions options)
    : impl_(new Impl{weights, statistics, evaluator, std::move(options)}) {}

Calibration::~Calibration() = default;

CalibratedFile Calibration::best(std::int64_t bytes) {
  return Impl::Candidates(*impl_, bytes).best();
}

}  // namespace gbcompress
