#include <ATen/Parallel.h>
#include <torch/headeronly/version.h>
#include <unistd.h>
#include <zstd.h>

#include <boost/version.hpp>
#include <iostream>
#include <thread>

#include "command.h"
#include "exit_status.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/gnet.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "table.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Check {
  std::string name, value;
  std::string problem;  ///< empty: fine
};

Check torch_check() {
  const std::string running = running_torch();
  Check check{"LibTorch", "headers " TORCH_VERSION ", library " + running, ""};
  if (const auto mismatch = torch_runtime_mismatch()) check.problem = *mismatch;
  return check;
}

Check temporary_check() {
  std::error_code failed;
  const fs::path folder = fs::temp_directory_path(failed);
  Check check{"temporary files", printable(folder.string()), ""};
  try {
    if (failed) throw Error(Errc::kIo, "there is no folder for temporary files; set TMPDIR");
    check_writable(folder / ("gbcompress-doctor-" + std::to_string(::getpid())), false);
  } catch (const Error& error) {
    check.problem = with_flags(error.what());
  }
  return check;
}

std::vector<Check> cuda_checks() {
  const CudaStatus status = cuda_status();
  std::string gpus;
  for (const std::string& gpu : status.gpus) gpus += (gpus.empty() ? "" : "; ") + gpu;
  const NcclStatus nccl = nccl_status();
  return {{"CUDA module",
           status.module.empty() ? "none; g-nets are computed on the CPU" : status.module,
           status.problem},
          {"GPU", gpus.empty() ? "none: " + status.no_gpu : gpus, ""},
          {"NCCL", nccl.versions.empty() ? "none; ranks use Gloo" : nccl.versions, nccl.problem}};
}

std::vector<Check> plugin_checks(const Arguments& arguments) {
  std::vector<Check> checks;
  PluginHost host;
  for (const std::string& file : arguments.list("plugin")) host.load(file);
  host.load_installed();
  for (const fs::path& folder : PluginHost::search_path()) {
    std::error_code ignored;
    checks.push_back({"plugin folder",
                      printable(folder.string()) +
                          (fs::is_directory(folder, ignored) ? "" : " (does not exist)"),
                      ""});
  }
  for (const LoadedPlugin& plugin : host.loaded())
    checks.push_back(
        {"plugin " + printable(plugin.fingerprint.name),
         printable(plugin.fingerprint.version) + ", " + printable(plugin.file.string()), ""});
  for (const auto& [file, reason] : host.refused())
    checks.push_back({"plugin", printable(file.string()), printable(with_flags(reason))});
  if (host.loaded().empty())
    checks.push_back({"plugins", "none",
                      "no plugin was found, so nothing can be compressed; "
                      "install them or set GBCOMPRESS_PLUGIN_PATH"});
  return checks;
}

}  // namespace

int doctor_with_torch(const Arguments& arguments) {
  std::vector<Check> checks = {
      {"gbcompress", GBC_VERSION_STRING, ""},
      torch_check(),
      {"compiler", "GCC " __VERSION__ ", C++" + std::to_string(__cplusplus), ""},
      {"Boost",
       std::to_string(BOOST_VERSION / 100000) + "." + std::to_string(BOOST_VERSION / 100 % 1000) +
           "." + std::to_string(BOOST_VERSION % 100),
       ""},
      {"zstd", std::string("headers " ZSTD_VERSION_STRING ", library ") + ZSTD_versionString(), ""},
      {"threads",
       std::to_string(at::get_num_threads()) + " of " +
           std::to_string(std::thread::hardware_concurrency()) + " cores",
       ""},
      {"processor", at::get_cpu_capability(), ""},
      temporary_check(),
  };
  for (Check& check : cuda_checks()) checks.push_back(std::move(check));
  for (Check& check : plugin_checks(arguments)) checks.push_back(std::move(check));

  bool good = true;
  ordered_json list = ordered_json::array();
  Table table(3);
  for (const Check& check : checks) {
    const bool fine = check.problem.empty();
    good = good && fine;
    table.row({fine ? "ok" : "BROKEN", check.name, check.value});
    if (!fine) table.row({"", "", check.problem});
    ordered_json entry = {{"name", check.name}, {"value", check.value}, {"ok", fine}};
    if (!fine) entry["problem"] = check.problem;
    list.push_back(entry);
  }
  if (arguments.json())
    print_json({{"ok", good}, {"checks", list}});
  else
    std::cout << table.text();
  return good ? kDone : kFailed;
}

}  // namespace gbcompress::cli
