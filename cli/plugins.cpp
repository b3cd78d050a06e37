#include <iostream>

#include "base/near_miss.h"
#include "base/text.h"
#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/plugin_template.h"
#include "probe.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

void options(po::options_description& into) {
  into.add_options()("output,o", po::value<std::string>()->value_name("DIR"),
                     "new: the folder to write, ./NAME otherwise");
}

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
                      {"models", plugin.models}});
    text += printable(print.name) + " " + printable(print.version) + "\n  file         " +
            printable(plugin.file.string()) + "\n  fingerprint  " + printable(print.text()) + "\n";
    if (!plugin.gnet_types.empty()) text += "  types        " + joined(plugin.gnet_types) + "\n";
    if (!plugin.models.empty()) text += "  models       " + joined(plugin.models) + "\n";
  }
  for (const auto& [file, reason] : host.refused()) {
    refused.push_back({{"file", file.string()}, {"reason", reason}});
    text += "refused: " + printable(file.string()) + "\n  " + printable(reason) + "\n";
  }
  ordered_json folders = ordered_json::array();
  std::string searched;
  for (const auto& folder : PluginHost::search_path()) {
    folders.push_back(folder.string());
    searched += "\n  " + printable(folder.string());
  }
  if (arguments.json()) {
    print_json({{"loaded", loaded}, {"refused", refused}, {"search_path", folders}});
  } else {
    std::cout << (text.empty() ? "no plugin was found\n" : text);
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
                {"ok", true}});
  } else {
    std::cout << printable(result.fingerprint.name) << " " << printable(result.fingerprint.version)
              << " can be loaded\n  fingerprint  " << printable(result.fingerprint.text())
              << "\n  types        " << joined(result.types) << "\n  models       "
              << joined(result.models) << "\n";
  }
  return kDone;
}

int create(const Arguments& arguments, const std::string& name) {
  const fs::path folder = arguments.has("output") ? arguments.text("output") : name;
  writing([&] { write_plugin_template(name, folder); });
  if (arguments.json())
    print_json({{"name", name}, {"folder", folder.string()}});
  else
    std::cout << "a plugin is begun in " << printable(folder.string())
              << "; its README.md says how it is built\n";
  return kDone;
}

int run(const Arguments& arguments) {
  const auto& words = arguments.words();
  const std::string what = words.empty() ? "list" : words[0];
  const auto operand = [&](const char* wanted) {
    if (words.size() < 2) throw Error(Errc::kUsage, "plugins " + what + " needs " + wanted);
    return words[1];
  };
  if (what != "new" && arguments.has("output"))
    throw Error(Errc::kUsage, "-o belongs to plugins new");
  if (what == "verify") return verify(arguments, operand("FILE"));
  if (what == "new") return create(arguments, operand("NAME"));
  if (what != "list")
    throw Error(Errc::kUsage, "unknown: plugins " + printable(what) +
                                  did_you_mean(what, {"list", "verify", "new"}));
  if (words.size() > 1)
    throw Error(Errc::kUsage, "plugins list takes no argument: " + printable(words[1]));
  return list(arguments);
}

}  // namespace

const Verb& plugins_verb() {
  static const Verb verb = {"plugins",
                            "List the plugins, check one, or begin a new one.",
                            "[list | verify FILE | new NAME [-o DIR]]",
                            "  gbcompress plugins\n"
                            "  gbcompress plugins verify my_layer.so\n"
                            "  gbcompress plugins new my_layer -o plugins/my_layer\n",
                            0,
                            2,
                            options,
                            run};
  return verb;
}

}  // namespace gbcompress::cli
