#include <algorithm>
#include <utility>

#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "gbcompress/strategy.h"
#include "plugin/named_calls.h"

namespace gbcompress {
namespace {

bool good_id(std::string_view id) {
  return !id.empty() && id.size() <= 64 && std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  });
}

std::string see_list() {
  return "; see `gbcompress plugins list`, or give its file to `PluginHost::load()`";
}

}  // namespace

/// Collects what one plugin registers in copies of the registry's tables. The first conflict is
/// kept, so that a plugin that catches the exception is refused all the same.
class StagingRegistrar final : public Registrar {
 public:
  StagingRegistrar(const Registry& registry, std::string origin)
      : next_(registry), origin_(std::move(origin)) {}

  using Registrar::register_gnet_type;

  void register_gnet_type(std::unique_ptr<GNetType> type) override {
    if (!type) refuse("registers a layer type that is null");
    const std::string id(type->id());
    if (!good_id(id))
      refuse("registers a layer type under the id \"" + printable(id) +
             "\"; ids are 1 to 64 of [a-z0-9_.-]");
    if (const auto other = next_.types_.find(id); other != next_.types_.end())
      refuse("registers the layer type " + id + ", which " + other->second.origin +
             " provides already; load only one of the two");
    const std::vector<std::string> modules = type->modules();
    if (modules.empty()) refuse("registers the layer type " + id + " for no module");
    for (const std::string& module : modules) {
      if (module.empty()) refuse("registers the layer type " + id + " for a module without a name");
      const auto [claim, fresh] = next_.modules_.emplace(module, id);
      if (!fresh)
        refuse("registers the layer type " + id + " for modules of type " + printable(module) +
               ", which layer type " + claim->second + " of " + origin_of(claim->second) +
               " claims already; load only one of the two");
    }
    type->origin_ = origin_;
    next_.types_[id] = {std::move(type), origin_};
    added_.gnet_types.push_back(id);
  }

  void register_model(const std::string& name, ModelFactory factory) override {
    if (!good_id(name))
      refuse("registers an architecture under the name \"" + printable(name) +
             "\"; names are 1 to 64 of [a-z0-9_.-]");
    if (!factory) refuse("registers the architecture " + name + " without a factory");
    if (!next_.models_.emplace(name, named_model(origin_, name, std::move(factory))).second)
      refuse("registers the architecture " + name + ", which " + next_.model_origins_.at(name) +
             " provides already; load only one of the two");
    next_.model_origins_[name] = origin_;
    added_.models.push_back(name);
  }

  void register_strategy(const std::string& name, StrategyFactory factory) override {
    if (!good_id(name))
      refuse("registers a strategy under the name \"" + printable(name) +
             "\"; names are 1 to 64 of [a-z0-9_.-]");
    if (!factory) refuse("registers the strategy " + name + " without a factory");
    if (name == StrategyChoice().name)
      refuse("registers the strategy " + name + ", which the program provides already");
    if (!next_.strategies_.emplace(name, named_strategy(origin_, name, std::move(factory))).second)
      refuse("registers the strategy " + name + ", which " + next_.strategy_origins_.at(name) +
             " provides already; load only one of the two");
    next_.strategy_origins_[name] = origin_;
    added_.strategies.push_back(name);
  }

  Registry::Added commit(Registry& registry) {
    if (!conflict_.empty()) throw Error(Errc::kPluginRefused, conflict_);
    registry = std::move(next_);
    return std::move(added_);
  }
  const std::string& conflict() const { return conflict_; }

 private:
  std::string origin_of(const std::string& id) const {
    const auto other = next_.types_.find(id);
    return other == next_.types_.end() ? origin_ : other->second.origin;
  }

  [[noreturn]] void refuse(const std::string& what) {
    if (conflict_.empty()) conflict_ = origin_ + " " + what;
    throw Error(Errc::kPluginRefused, origin_ + " " + what);
  }

  Registry next_;
  std::string origin_, conflict_;
  Registry::Added added_;
};

const GNetType* Registry::find_by_module(const std::string& module_type) const {
  const auto claim = modules_.find(module_type);
  return claim == modules_.end() ? nullptr : find_by_id(claim->second);
}

const GNetType* Registry::find_by_id(const std::string& id) const {
  const auto entry = types_.find(id);
  return entry == types_.end() ? nullptr : entry->second.type.get();
}

const GNetType& Registry::require(const std::string& id, std::uint32_t revision) const {
  const auto entry = types_.find(id);
  if (entry == types_.end())
    throw Error(Errc::kPluginMissing,
                "no loaded plugin provides layer type " + printable(id) + see_list());
  const GNetType& type = *entry->second.type;
  if (revision == type.revision() ||
      (revision < type.revision() && type.supports("revision-" + std::to_string(revision))))
    return type;
  throw Error(Errc::kPluginMissing, "revision " + std::to_string(revision) + " of layer type " +
                                        id + " is needed, " + entry->second.origin + " provides " +
                                        std::to_string(type.revision()) + ": " +
                                        (revision > type.revision() ? "a newer" : "an older") +
                                        " plugin is needed; give its file to `PluginHost::load()`");
}

std::vector<std::string> Registry::ids() const {
  std::vector<std::string> result;
  for (const auto& [id, entry] : types_) result.push_back(id);
  return result;
}

Registry::Added Registry::stage(const std::string& origin,
                                const std::function<void(Registrar&)>& fill) {
  StagingRegistrar staging(*this, origin);
  try {
    fill(staging);
  } catch (...) {
    if (!staging.conflict().empty()) throw Error(Errc::kPluginRefused, staging.conflict());
    throw;
  }
  return staging.commit(*this);
}

}  // namespace gbcompress
