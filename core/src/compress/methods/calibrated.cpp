#include "compress/methods/drop_sizes.h"
#include "compress/methods/methods.h"
#include "compress/notes.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// The next size after one whose model is collapsed is so many times as large, and the bracket is
/// cut (on a logarithmic scale) so many times.
constexpr double kLarger = 2;
constexpr int kSizeCuts = 2;
constexpr int kMostSizes = 64;

}  // namespace

Candidate CalibratedMethod::run(const CompressionPlan& plan, TrainingRun& run) {
  if (plan.max_drop) return largest_ratio_within_drop(plan, run, /*cheap=*/true);
  const bool last = plan.methods.back() == Method::kCalibrated;
  if (plan.max_bytes == 0 || !last) {
    run.make(plan.max_bytes);
    return run.candidate();
  }
  const auto usable = [&](double bytes) {
    run.make(static_cast<std::int64_t>(bytes));
    return run.kept() >= kLeastKept;
  };
  BracketSearch search({.scale = Scale::kLog,
                        .cuts = kSizeCuts,
                        .stride = kLarger,
                        .strides = kMostSizes,
                        .limit = static_cast<double>(plan.input_bytes)},
                       {.first = static_cast<double>(plan.max_bytes)});
  while (const auto bytes = search.next()) search.tried(*bytes, usable(*bytes));
  if (search.holds() && search.state().last != search.holds()) usable(*search.holds());
  Candidate candidate = run.candidate();
  candidate.target_met = !candidate.collapsed();
  if (!candidate.target_met)
    candidate.note = all_collapsed(plan.max_bytes, candidate.file.size());
  else if (search.fails())
    candidate.note = out_of_reach(plan.max_bytes, static_cast<std::int64_t>(candidate.file.size()));
  else if (candidate.weights && !candidate.weights->target_met)
    candidate.note = candidate.weights->target_note;
  return candidate;
}

}  // namespace gbcompress
