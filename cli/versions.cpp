#include "versions.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include "gbcompress/error.h"

namespace gbcompress::cli {

std::string running_torch() {
  // Its own words: "..., TORCH_VERSION=2.11.0, ...".
  const std::string words = at::show_config();
  const std::string key = "TORCH_VERSION=";
  const std::size_t at = words.find(key);
  if (at == std::string::npos) return "unknown";
  return words.substr(at + key.size(), words.find_first_of(", \n", at) - at - key.size());
}

void tell_versions(Report& page, const PluginHost& host) {
  if (!page.wanted()) return;
  nlohmann::ordered_json plugins = nlohmann::ordered_json::object();
  for (const LoadedPlugin& plugin : host.loaded())
    plugins[printable(plugin.fingerprint.name)] = printable(plugin.fingerprint.version);
  page.set("versions", {{"LibTorch", running_torch()},
                        {"processor", at::get_cpu_capability()},
                        {"threads", at::get_num_threads()},
                        {"plugins", std::move(plugins)}});
}

}  // namespace gbcompress::cli
