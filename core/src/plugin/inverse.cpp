#include "gbcompress/strategy.h"

#include <map>
#include <mutex>
#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Table {
  std::mutex mutex;
  std::map<std::string, InverseFactory> factories;
};
// Never destroyed: plugins are never unloaded, and threads may still ask at exit.
Table& table() {
  static Table& one = *new Table;
  return one;
}

}  // namespace

LayerInverse::~LayerInverse() = default;

void register_inverse(const std::string& module_type, InverseFactory factory) {
  if (module_type.empty() || !factory)
    throw Error(Errc::kPluginRefused, "an inverse needs a module's type and a factory");
  const std::lock_guard lock(table().mutex);
  table().factories[module_type] = std::move(factory);
}

InverseFactory find_inverse(const std::string& module_type) {
  const std::lock_guard lock(table().mutex);
  const auto found = table().factories.find(module_type);
  return found == table().factories.end() ? InverseFactory() : found->second;
}

}  // namespace gbcompress
