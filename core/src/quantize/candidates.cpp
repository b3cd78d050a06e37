#include "quantize/candidates.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "quantize/feedback/rounding_model.h"
#include "quantize/feedback/upper_factor.h"
#include "quantize/roles.h"

namespace gbcompress {
namespace {

/// Damping of moments, as in rounding. Factors of wider moments would take minutes: error feedback
/// always counts as better there.
constexpr double kDamp = 0.02;
constexpr std::int64_t kWidestFactor = 4096;
/// What error feedback leaves of the cost of nearest integers where it is worth more than the
/// trellis of other tensors.
constexpr double kPays = 0.6;
/// Parts of each moment that are replaced by the identity, in their order.
constexpr double kShrinkageStep = 0.25, kMostShrinkage = 0.75;
constexpr std::string_view kShrunk = ", moments shrunk by ";

/// Mean cost of a squared error whose successors make up for it.
double feedback_cost(const TensorStatistics& of) {
  const std::vector<float>& moment = of.input_moment.empty() ? of.output_moment : of.input_moment;
  const auto groups = static_cast<std::size_t>(of.input_moment.empty() ? 1 : of.groups);
  const std::size_t numbers = moment.size() / groups;
  const auto n = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(numbers))));
  if (n > kWidestFactor) return 0;
  double sum = 0;
  for (std::size_t g = 0; g < groups; ++g)
    sum += UpperFactor(std::span(moment).subspan(g * numbers, numbers), n, kDamp).mean_square();
  return sum / static_cast<double>(groups);
}

/// Names of entries for which error feedback is worth less than the trellis.
std::set<std::string, std::less<>> where_it_does_not_pay(const Statistics& statistics) {
  std::set<std::string, std::less<>> names;
  for (const auto& [name, of] : statistics.tensors)
    if (any_moments(of) && feedback_cost(of) > kPays) names.insert(name);
  return names;
}

/// Whether some rows are more important than others.
bool rows_differ(const TensorStatistics& of) {
  return std::ranges::adjacent_find(of.row_importance, std::ranges::not_equal_to{}) !=
         of.row_importance.end();
}

template <typename Has>
std::size_t count(const Statistics& statistics, const Has& has) {
  return static_cast<std::size_t>(std::ranges::count_if(
      statistics.tensors, [&](const auto& each) { return has(each.second); }));
}

}  // namespace

std::vector<CandidateUse> candidate_uses(const Statistics& statistics) {
  std::vector<CandidateUse> uses{{.name = "data-free"}};
  const std::size_t moments = count(statistics, any_moments);
  const bool two_sided = count(statistics, [](const TensorStatistics& of) {
                           return !of.input_moment.empty() && !of.output_moment.empty();
                         }) > 0;
  const bool importance =
      count(statistics, [](const TensorStatistics& of) { return !of.row_importance.empty(); }) > 0;
  const std::string steps = importance ? ", steps by importance" : "";
  const auto add = [&](const std::string& name, StatisticsUse use) {
    use.tensor_steps = use.tensor_steps && importance;
    if (!importance) use.row_power = use.joint_row_power = 0;
    uses.push_back({name, true, std::move(use)});
  };
  const std::string one = "error feedback", both = "two-sided error feedback";
  const StatisticsUse columns{.two_sided = false};
  const StatisticsUse tensors{.two_sided = two_sided, .row_power = 0};
  // One-sided feedback first: less error than two-sided on the networks of the record
  // calibrated-candidates, in less time.
  if (moments > 0) add(one + steps, columns);
  if (two_sided) add(both + steps, {});
  if (moments > 0 && count(statistics, rows_differ) > 0)
    add((two_sided ? both : one) + ", steps of tensors by importance", tensors);
  if (moments > 0) {
    StatisticsUse partly = columns;
    partly.without_moments = where_it_does_not_pay(statistics);
    if (!partly.without_moments.empty() && partly.without_moments.size() < moments)
      add(one + " where it pays" + steps, partly);
  }
  if (importance) {
    add("steps by importance", {.feedback = false, .two_sided = false, .bias = false});
    if (moments > 0)
      add(one, {.two_sided = false, .tensor_steps = false, .row_power = 0, .joint_row_power = 0});
  }
  return uses;
}

CandidateUse in_sequence(const CandidateUse& candidate) {
  CandidateUse fitted = candidate;
  fitted.name += ", layer by layer";
  fitted.sequential = true;
  return fitted;
}

std::optional<CandidateUse> with_biases_kept(const CandidateUse& candidate,
                                             const Statistics& statistics,
                                             const TensorBundle& weights) {
  const auto corrects = [&](const auto& each) {
    const std::string name = each.first.substr(0, each.first.find('|'));
    return !each.second.input_mean.empty() && weights.find(bias_of(name));
  };
  if (!candidate.statistics || !candidate.use.feedback || !candidate.use.bias ||
      std::ranges::none_of(statistics.tensors, corrects))
    return {};
  CandidateUse kept = candidate;
  kept.name += ", biases kept";
  kept.use.bias = false;
  return kept;
}

std::optional<CandidateUse> with_shrunk_moments(const CandidateUse& candidate,
                                                const Statistics& statistics) {
  if (!candidate.statistics || !candidate.use.feedback ||
      candidate.use.shrinkage >= kMostShrinkage || count(statistics, any_moments) == 0)
    return {};
  CandidateUse shrunk = candidate;
  shrunk.use.shrinkage += kShrinkageStep;
  shrunk.name.resize(std::min(shrunk.name.size(), shrunk.name.find(kShrunk)));
  shrunk.name +=
      std::string(kShrunk) + std::to_string(std::lround(100 * shrunk.use.shrinkage)) + " %";
  return shrunk;
}

}  // namespace gbcompress
