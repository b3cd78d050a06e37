#include "ranks.h"

#include <boost/program_options.hpp>
#include <cstdlib>

#include "base/digest.h"
#include "base/file.h"
#include "base/text.h"
#include "gbcompress/error.h"
#include "gbcompress/launch.h"
#include "gbcompress/plugin_fingerprint.h"
#include "gbcompress/rank_log.h"
#include "gbcompress/version.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

std::optional<std::string> given(const Arguments& arguments, const char* option) {
  return arguments.has(option) ? std::optional(arguments.text(option)) : std::nullopt;
}

std::chrono::milliseconds timeout_of(const std::string& text) {
  char* end = nullptr;
  const double seconds = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !(seconds >= 0.1 && seconds <= 86'400))
    throw Error(Errc::kUsage,
                "--timeout " + printable(text) + " is not possible; give 0.1 to 86400 seconds");
  return std::chrono::milliseconds(static_cast<std::int64_t>(1000 * seconds));
}

std::string file_digest(const std::filesystem::path& file) {
  const MappedFile mapped(file);
  return to_hex(sha256(mapped.bytes()));
}

}  // namespace

void add_rank_options(po::options_description& into) {
  auto add = into.add_options();
  const auto text = [](const char* name) { return po::value<std::string>()->value_name(name); };
  add("rank", text("R"),
      "this process's number among several; usually torchrun, mpirun or srun say");
  add("world", text("N"), "how many processes work together");
  add("local-rank", text("R"), "its number on this machine");
  add("master", text("HOST:PORT"), "where the processes meet");
  add("listen", text("ADDRESS"),
      "where to accept connections of other machines; else loopback only");
  add("timeout", text("SECONDS"), "how long to wait for another process (120)");
  add("backend", text("NAME"), "gloo (CPU) or nccl (GPU)");
}

std::unique_ptr<Group> open_group(const Arguments& arguments, const PluginHost& plugins) {
  LaunchFlags flags{given(arguments, "rank"), given(arguments, "world"),
                    given(arguments, "local-rank"), given(arguments, "master")};
  const Launch launch = read_launch(flags);
  set_log_rank(launch.rank, launch.world);
  GroupOptions options;
  if (arguments.has("timeout")) options.timeout = timeout_of(arguments.text("timeout"));
  options.listen = arguments.text("listen");
  const std::string backend = arguments.text("backend");
  if (backend == "nccl")
    options.backend = DistBackend::kNccl;
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
