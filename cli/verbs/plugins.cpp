#include <boost/program_options.hpp>
#include <iostream>

#include "command.h"
#include "exit_status.h"
#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "idle_options.h"
#include "model_options.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

void add_plugins_options(po::options_description& into) {
  into.add_options()("output,o", po::value<std::string>()->value_name("DIR"),
                     "new: the folder to write, ./NAME otherwise");
}

int create(const Arguments& arguments, const std::string& name) {
  const fs::path folder = arguments.has("output") ? arguments.text("output") : name;
  writing([&] { write_plugin_template(name, folder); });
  if (arguments.json())
    print_json({{"name", name}, {"folder", folder.string()}});
  else
    std::cout << "a plugin is begun in " << printable(folder.string())
              << "; its README.md describes the build\n";
  return kDone;
}

int run_plugins(const Arguments& arguments) {
  const auto& words = arguments.words();
  const std::string what = words.empty() ? "list" : words[0];
  if (what != "new" && arguments.has("output"))
    throw Error(Errc::kUsage, "-o belongs to plugins new");
  if ((what == "verify" || what == "new") && words.size() < 2)
    throw Error(Errc::kUsage, "plugins " + what + " needs " + (what == "new" ? "NAME" : "FILE"));
  std::vector<std::string> idle;
  if (what == "new" || what == "verify")
    note_idle(arguments, {"plugin"}, "plugins " + what + " loads no other plugins", idle);
  say_notes(arguments, idle);
  if (what == "new") return create(arguments, words[1]);
  if (what != "list" && what != "verify")
    throw Error(Errc::kUsage, "unknown: plugins " + printable(what) +
                                  did_you_mean(what, {"list", "verify", "new"}));
  if (what == "list" && words.size() > 1)
    throw Error(Errc::kUsage, "plugins list takes no argument: " + printable(words[1]));
  return run_with_torch("plugins", arguments);
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
                            add_plugins_options,
                            run_plugins,
                            false,
                            {"list", "verify", "new"}};
  return verb;
}

const Verb& probe_verb() {
  static const Verb verb = {"probe-plugin",
                            "Load a plugin and print what it registers.",
                            "FILE",
                            "",
                            1,
                            1,
                            nullptr,
                            nullptr,
                            true};
  return verb;
}

}  // namespace gbcompress::cli
