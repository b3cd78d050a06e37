// `plugins list` and `plugins verify`.
#include <iostream>

#include "exit_status.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "gbcompress/strategy.h"
#include "probe.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const auto& word : words) text += (text.empty() ? "" : ", ") + printable(word);
  return text;
}

int list(const Arguments& arguments) {
  PluginHost host;
  for (const std::string& file : arguments.list("plugin")) host.load(file);
  host.load_installed();
  ordered_json loaded = ordered_json::array(), refused = ordered_json::array();
  std::string text;
  for (const LoadedPlugin& plugin : host.loaded()) {
    const PluginFingerprint& print = plugin.fingerprint;
    loaded.push_back({{"name", print.name},
                      {"version", print.version},
                      {"file", plugin.file.string()},
                      {"fingerprint", print.text()},
                      {"types", plugin.gnet_types},
                      {"models", plugin.models},
                      {"strategies", plugin.strategies}});
    text += printable(print.name) + " " + printable(print.version) + "\n  file         " +
            printable(plugin.file.string()) + "\n  fingerprint  " + printable(print.text()) + "\n";
    if (!plugin.gnet_types.empty()) text += "  types        " + joined(plugin.gnet_types) + "\n";
    if (!plugin.models.empty()) text += "  models       " + joined(plugin.models) + "\n";
    if (!plugin.strategies.empty()) text += "  strategies   " + joined(plugin.strategies) + "\n";
  }
  for (const auto& [file, reason] : host.refused()) {
    refused.push_back({{"file", file.string()}, {"reason", with_flags(reason)}});
    text += "refused: " + printable(file.string()) + "\n  " + printable(with_flags(reason)) + "\n";
  }
  ordered_json folders = ordered_json::array();
  std::string searched;
  for (const auto& folder : PluginHost::search_path()) {
    folders.push_back(folder.string());
    searched += "\n  " + printable(folder.string());
  }
  if (arguments.json()) {
    print_json({{"loaded", loaded},
                {"refused", refused},
                {"search_path", folders},
                {"built_in", {{"strategies", known_strategies(Registry())}}}});
  } else {
    std::cout << (text.empty() ? "no plugin was found\n" : text) << "built in\n  strategies   "
              << joined(known_strategies(Registry())) << "\n";
    if (text.empty() || arguments.verbose()) std::cout << "searched:" << searched << "\n";
  }
  return kDone;
}

int verify(const Arguments& arguments, const fs::path& file) {
  const ProbeResult result = probe_plugin(file);
  if (arguments.json()) {
    print_json({{"file", file.string()},
                {"fingerprint", result.fingerprint.text()},
                {"types", result.types},
                {"models", result.models},
                {"strategies", result.strategies},
                {"ok", true}});
  } else {
    std::cout << printable(result.fingerprint.name) << " " << printable(result.fingerprint.version)
              << " can be loaded\n  fingerprint  " << printable(result.fingerprint.text())
              << "\n  types        " << joined(result.types) << "\n  models       "
              << joined(result.models) << "\n  strategies   " << joined(result.strategies) << "\n";
  }
  return kDone;
}

}  // namespace

int plugins_with_torch(const Arguments& arguments) {
  const auto& words = arguments.words();
  return words.size() > 1 ? verify(arguments, words[1]) : list(arguments);
}

}  // namespace gbcompress::cli
