#include "load_plugins.h"

#include "gbcompress/error.h"
#include "gbcompress/model.h"

namespace gbcompress::cli {

void load_plugins(PluginHost& host, const Arguments& arguments) {
  for (const std::string& file : arguments.list("plugin")) host.load(file);
  host.load_installed();
  if (!arguments.quiet()) {
    for (const auto& [file, reason] : host.refused())
      say("warning: plugin " + printable(file.string()) + " is not used: " + printable(reason));
  }
  host.registry().stage("gbcompress", register_builtin_models);
}

}  // namespace gbcompress::cli
