#include "ranks.h"

#include <cmath>

#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "run_options.h"

namespace gbcompress::cli {

std::unique_ptr<Group> open_group(const Arguments& arguments, const PluginHost& plugins,
                                  const Settings& settings) {
  const Launch launch = read_launch();
  set_log_rank(launch.rank, launch.world);
  GroupOptions options;
  const RankSettings& ranks = settings.ranks;
  options.timeout = std::chrono::milliseconds(std::llround(1000 * ranks.timeout));
  options.listen = ranks.listen;
  const bool on_gpus =
      launch.world > 1 && settings.device.starts_with("cuda") && arguments.has("data");
  if (ranks.backend == "nccl" || (ranks.backend == "auto" && on_gpus))
    options.backend = RankBackend::kNccl;
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
