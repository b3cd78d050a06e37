#include "plugin/named_calls.h"

#include <utility>

#include "gbcompress/model.h"
#include "gbcompress/strategy.h"
#include "plugin/plugin_call.h"

namespace gbcompress {
namespace {

class NamedStrategy final : public Strategy {
 private:
  template <typename F>
  auto call(std::string_view function, F&& act) const {
    return call_plugin({origin_, "strategy", name_, function, {}, PassedErrors::kAll}, act);
  }

 public:
  NamedStrategy(std::string origin, std::string name, std::unique_ptr<Strategy> strategy)
      : origin_(std::move(origin)), name_(std::move(name)), strategy_(std::move(strategy)) {}

  std::vector<std::string> needs() const override {
    return call("needs", [&] { return strategy_->needs(); });
  }
  std::vector<std::string> options() const override {
    return call("options", [&] { return strategy_->options(); });
  }
  void build(const StrategySetup& setup) override {
    call("build", [&] { strategy_->build(setup); });
  }
  Measurements step(const StrategyBatch& batch) override {
    return call("step", [&] { return strategy_->step(batch); });
  }
  std::vector<StateEntry> aux_state() const override {
    return call("aux_state", [&] { return strategy_->aux_state(); });
  }
  void restore(const std::vector<StateEntry>& state) override {
    call("restore", [&] { strategy_->restore(state); });
  }
  std::string describe() const override {
    return call("describe", [&] { return strategy_->describe(); });
  }

 private:
  std::string origin_, name_;
  std::unique_ptr<Strategy> strategy_;
};

}  // namespace

ModelFactory named_model(std::string origin, std::string name, ModelFactory factory) {
  return [origin = std::move(origin), name = std::move(name),
          factory = std::move(factory)](const ModelRequest& request) {
    const PluginCall call{origin, "architecture", name, "its factory", {}};
    const CrashNote note(call);
    return factory(request);
  };
}

StrategyFactory named_strategy(std::string origin, std::string name, StrategyFactory factory) {
  return [origin = std::move(origin), name = std::move(name),
          factory = std::move(factory)]() -> std::unique_ptr<Strategy> {
    auto strategy = call_plugin({origin, "strategy", name, "its factory", {}, PassedErrors::kAll},
                                [&] { return factory(); });
    if (!strategy) return nullptr;
    return std::make_unique<NamedStrategy>(origin, name, std::move(strategy));
  };
}

}  // namespace gbcompress
