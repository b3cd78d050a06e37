#include "gbcompress/strategy.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <cmath>
#include <sstream>

#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gnet/fused.h"

namespace gbcompress {

Strategy::~Strategy() = default;

void Strategy::restore(const std::vector<StateEntry>& state) {
  if (!state.empty())
    throw Error(Errc::kFailure,
                "this strategy gives auxiliary state but takes none back; this is a defect of the "
                "plugin that provides it");
}

namespace {

/// The gradient of the loss, through the whole model.
class Backprop final : public Strategy {
 public:
  void build(const StrategySetup& setup) override {
    model_ = &setup.model;
    loss_ = setup.loss;
  }
  Measurements step(const StrategyBatch& batch) override {
    const at::Tensor loss = loss_(model_->forward(batch.inputs), batch);
    const double value = loss.item<double>();
    // A gradient that is not finite would say less than the loss does.
    if (std::isfinite(value)) (batch.weight == 1 ? loss : loss * batch.weight).backward();
    return {value, {}};
  }

 private:
  Model* model_ = nullptr;
  decltype(StrategySetup::loss) loss_;
};

std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + printable(name);
  return text;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::map<std::string, std::string> parse_options(const StrategyChoice& choice,
                                                 const std::vector<std::string>& known) {
  std::map<std::string, std::string> result;
  std::istringstream words(choice.options);
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == 0 || equals == std::string::npos)
      throw Error(Errc::kUsage, "strategy.options: " + printable(word) + " is not KEY=VALUE");
    const std::string key = word.substr(0, equals);
    if (!holds(known, key))
      throw Error(Errc::kUsage,
                  "strategy " + choice.name + " takes no option " + printable(key) +
                      did_you_mean(key, known) +
                      (known.empty() ? "; it takes none" : " (it takes " + listed(known) + ")"));
    if (!result.emplace(key, word.substr(equals + 1)).second)
      throw Error(Errc::kUsage, "strategy.options gives " + printable(key) + " twice");
  }
  return result;
}

void check_needs(const StrategyChoice& choice, const Strategy& strategy, const Model& model) {
  for (const std::string& need : strategy.needs()) {
    if (need == "whole-batch" || need == "exits") continue;  // train()'s
    if (need != "stages")
      throw Error(Errc::kUsage, "strategy " + choice.name + " needs \"" + printable(need) +
                                    "\", which this program cannot give; it may be made for a "
                                    "newer gbcompress");
    if (model.stages().empty())
      throw Error(Errc::kUsage,
                  "strategy " + choice.name +
                      " needs a model that declares its stages, as mlp and lenet5 do; a plugin's "
                      "architecture declares them in BuiltModel::stages");
  }
}

/// Ranks that compute the same numbers, each for itself, must compute them in the same way.
void agree_on_arithmetic(const StrategySetup& setup, const Strategy& strategy) {
  if (!setup.group || setup.group->world() == 1 || !holds(strategy.needs(), "whole-batch")) return;
  setup.group->agree(std::vector<Fact>{
      {"the number of threads", std::to_string(at::get_num_threads()),
       "every rank computes the same sums, whose bits depend on it: set OMP_NUM_THREADS to one "
       "number for all ranks"},
      {"the instruction set", std::string(at::get_cpu_capability()) + ", " + fused_target_name(),
       "every rank computes the same sums, whose bits depend on it: start all ranks on processors "
       "of one kind, or set ATEN_CPU_CAPABILITY to one value for all ranks"}});
}

}  // namespace

std::vector<std::string> known_strategies(const Registry& registry) {
  std::vector<std::string> names = {StrategyChoice().name};
  for (const auto& [name, factory] : registry.strategies()) names.push_back(name);
  std::sort(names.begin(), names.end());
  return names;
}

void check_strategy(const StrategyChoice& choice, const Registry& registry) {
  const auto known = known_strategies(registry);
  if (holds(known, choice.name)) return;
  throw Error(Errc::kPluginMissing,
              "there is no strategy named " + printable(choice.name) +
                  did_you_mean(choice.name, known) + " (known: " + listed(known) +
                  "); its plugin may be missing: see `gbcompress plugins list`, or give its file "
                  "to `PluginHost::load()`");
}

std::unique_ptr<Strategy> make_strategy(const StrategyChoice& choice, StrategySetup setup,
                                        const Registry& registry) {
  check_strategy(choice, registry);
  std::unique_ptr<Strategy> strategy;
  if (choice.name == StrategyChoice().name)
    strategy = std::make_unique<Backprop>();
  else
    strategy = registry.strategies().at(choice.name)();
  if (!strategy)
    throw Error(Errc::kFailure, "the factory of strategy " + choice.name +
                                    " returned nothing; this is a defect of its plugin");
  setup.options = parse_options(choice, strategy->options());
  check_needs(choice, *strategy, setup.model);
  agree_on_arithmetic(setup, *strategy);
  strategy->build(setup);
  return strategy;
}

}  // namespace gbcompress
