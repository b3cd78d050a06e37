#include "ranks.h"

#include <cstdlib>

#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace {

std::chrono::milliseconds timeout_of(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.1 && seconds <= 86'400))
    throw Error(Errc::kUsage,
                "--timeout " + printable(text) + " is not possible; give 0.1 to 86400 seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

}  // namespace

std::unique_ptr<Group> open_group(const Arguments& arguments, const PluginHost& plugins,
                                  const Settings& settings) {
  const Launch launch = launch_of(arguments);
  set_log_rank(launch.rank, launch.world);
  GroupOptions options;
  if (arguments.has("timeout")) options.timeout = timeout_of(arguments.text("timeout"));
  options.listen = arguments.text("listen");
  std::string backend = arguments.text("backend");
  if (backend.empty() && launch.world > 1 && settings.device.starts_with("cuda") &&
      arguments.has("data"))
    backend = "nccl";
  if (backend == "nccl")
    options.backend = RankBackend::kNccl;
  else if (!backend.empty() && backend != "gloo")
    throw Error(Errc::kUsage,
                "--backend " + printable(backend) + " is not known; use gloo or nccl");
  auto group = Group::open(launch, options);
  if (group->world() == 1) return group;
  std::vector<Fact> facts = {{"the version of gbcompress", GBC_VERSION_STRING},
                             {"the build", host_fingerprint().text()},
                             {"the program", file_digest("/proc/self/exe")}};
  for (const LoadedPlugin& plugin : plugins.loaded())
    facts.push_back(
        {"plugin " + plugin.fingerprint.name, plugin.fingerprint.version + " " + plugin.sha256});
  group->agree(facts);
  return group;
}

}  // namespace gbcompress::cli
