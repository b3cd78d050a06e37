// Which methods a run uses.
#include "gbcompress/plan.h"

#include <algorithm>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

bool has_rule(const BottleneckOptions& options, WeightMode mode) {
  return std::any_of(options.layers.begin(), options.layers.end(),
                     [mode](const LayerRule& rule) { return rule.mode == mode; });
}

/// Whether bits are in the loss: some parameters are integers, or all g-nets.
bool has_rate(const BottleneckOptions& options) {
  return options.mode == WeightMode::kQuantized || options.coding == Coding::kCoded ||
         has_rule(options, WeightMode::kQuantized);
}

bool calibrates(const CompressOptions& options, const RequestFacts& facts) {
  return facts.statistics ||
         (facts.data && options.train.loss != Loss::kWeights && options.train.rate.calibration > 0);
}

/// Of a run that trains, after what is cheaper.
Method training_method(const CompressOptions& options) {
  const Target& target = options.target;
  if (has_rate(options.bottleneck) && (has_size(target) || target.max_drop || target.no_loss))
    return Method::kRateSearch;
  if (options.bottleneck.mode == WeightMode::kGenerated || target.max_drop)
    return Method::kGnetSize;
  return Method::kFixedRate;
}

Method untrained_method(const CompressOptions& options, const RequestFacts& facts) {
  const BottleneckOptions& to = options.bottleneck;
  if (to.mode == WeightMode::kQuantized)
    return calibrates(options, facts) ? Method::kCalibrated : Method::kDataFree;
  if (has_gnets(to)) return Method::kGnetSize;
  return has_rule(to, WeightMode::kQuantized) ? Method::kDataFree : Method::kExact;
}

/// Nothing where all is there.
const char* missing_input(Method method, const RequestFacts& facts) {
  if (method == Method::kCalibrated && !facts.data && !facts.statistics)
    return "data, or a file of second-order statistics";
  if (trains(method) && !facts.data) return "data to train on";
  return nullptr;
}

}  // namespace

std::string_view method_name(Method method) noexcept {
  constexpr std::string_view kNames[] = {"exact",   "data-free", "calibrated",
                                         "trained", "trained",   "generated"};
  return kNames[static_cast<std::size_t>(method)];
}

bool trains(Method method) noexcept {
  return method == Method::kFixedRate || method == Method::kRateSearch;
}

bool has_size(const Target& target) noexcept {
  return target.ratio || target.max_bytes || target.bits;
}

bool has_gnets(const BottleneckOptions& options) {
  return options.mode == WeightMode::kGenerated ||
         std::any_of(options.layers.begin(), options.layers.end(),
                     [](const LayerRule& rule) { return rule.mode == WeightMode::kGenerated; });
}

CompressionPlan plan_of(const CompressOptions& options, const RequestFacts& facts) {
  CompressionPlan plan;
  plan.holds = options.bottleneck.mode;
  plan.effort = effort_of(options);
  const bool cheaper = facts.data && tries_cheaper_methods(options) && !facts.resumes;
  plan.compares_files = cheaper;
  if (cheaper) plan.methods.push_back(Method::kDataFree);
  if (cheaper && calibrates(options, facts)) plan.methods.push_back(Method::kCalibrated);
  if (facts.data && may_train(options))
    plan.methods.push_back(training_method(options));
  else if (!cheaper)
    plan.methods.push_back(untrained_method(options, facts));
  const Method last = plan.methods.back();
  plan.needs_model = facts.data || trains(last) || last == Method::kGnetSize ||
                     has_gnets(options.bottleneck) || options.target.max_drop ||
                     options.train.loss != Loss::kWeights ||
                     options.train.strategy.name != StrategyChoice().name;
  return plan;
}

void check_executable(const CompressionPlan& plan, const RequestFacts& facts) {
  if (plan.methods.empty())
    throw Error(Errc::kUsage, "the plan has no method; give a target or data");
  if (plan.methods.size() > 1 && !plan.compares_files)
    throw Error(Errc::kUsage, "the plan has several methods (" + plan.method_text() +
                                  ") and no comparison that chooses one; give data");
  if (plan.compares_files && !facts.data)
    throw Error(Errc::kUsage,
                "the plan compares files on a held-out split, and there are no data; give data");
  for (const Method method : plan.methods) {
    const char* needed = missing_input(method, facts);
    if (needed)
      throw Error(Errc::kUsage, "the method " + std::string(plan.name(method)) +
                                    " of the plan cannot be executed: it needs " + needed);
  }
}

std::string_view CompressionPlan::name(Method method) const noexcept {
  return holds == WeightMode::kGenerated ? method_name(Method::kGnetSize) : method_name(method);
}

std::string CompressionPlan::method_text() const {
  std::string text(name(methods.front()));
  if (methods.size() == 1) return text;
  if (methods.size() == 2)
    return text + ", or " + std::string(name(methods.back())) +
           " if that has a measurable quality drop";
  for (std::size_t i = 1; i < methods.size(); ++i) {
    text += i + 1 == methods.size() ? " or " : ", ";
    text += name(methods[i]);
  }
  return text + ", the first without a quality drop";
}

std::string_view CompressionPlan::content_text() const noexcept {
  constexpr std::string_view kTexts[] = {"weights generated by g-nets", "quantized weights",
                                         "exact values"};
  return kTexts[static_cast<std::size_t>(holds)];
}

}  // namespace gbcompress
