// The part of `doctor` that needs LibTorch.
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "doctor.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/gnet.h"
#include "gbcompress/ranks.h"
#include "gbcompress/registry.h"
#include "gbcompress/tensors.h"
#include "torch_module.h"
#include "versions.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;

Check torch_check() {
  const std::string running = running_torch();
  return check_of("LibTorch", "headers " TORCH_VERSION ", library " + running,
                  torch_runtime_mismatch().value_or(""));
}

std::vector<Check> cuda_checks() {
  const CudaStatus status = cuda_status();
  std::string gpus;
  for (const std::string& gpu : status.gpus) gpus += (gpus.empty() ? "" : "; ") + gpu;
  const NcclStatus nccl = nccl_status();
  return {check_of("CUDA module",
                   status.module.empty() ? "none; g-nets are computed on the CPU" : status.module,
                   status.problem),
          {"GPU", gpus.empty() ? "none: " + status.no_gpu : gpus},
          check_of("NCCL", nccl.versions.empty() ? "none; ranks use Gloo" : nccl.versions,
                   nccl.problem)};
}

std::vector<Check> plugin_checks(const Arguments& arguments) {
  std::vector<Check> checks;
  PluginHost host;
  for (const std::string& file : arguments.list("plugin")) host.load(file);
  host.load_installed();
  for (const fs::path& folder : PluginHost::search_path()) {
    std::error_code ignored;
    checks.push_back(
        {"plugin folder", printable(folder.string()) +
                              (fs::is_directory(folder, ignored) ? "" : " (does not exist)")});
  }
  for (const LoadedPlugin& plugin : host.loaded())
    checks.push_back(
        {"plugin " + printable(plugin.fingerprint.name),
         printable(plugin.fingerprint.version) + ", " + printable(plugin.file.string())});
  for (const auto& [file, reason] : host.refused())
    checks.push_back(check_of("plugin", printable(file.string()), printable(with_flags(reason))));
  if (host.loaded().empty())
    checks.push_back(check_of("plugins", "none",
                              "no plugin was found, so no layer has g-nets and no architecture is "
                              "known; install them or set GBCOMPRESS_PLUGIN_PATH"));
  return checks;
}

}  // namespace

std::vector<Check> doctor_with_torch(const Arguments& arguments) {
  std::vector<Check> checks = {
      torch_check(),
      {"LibTorch's threads", std::to_string(at::get_num_threads())},
      {"LibTorch's instructions", at::get_cpu_capability()},
  };
  for (Check& check : cuda_checks()) checks.push_back(std::move(check));
  for (Check& check : plugin_checks(arguments)) checks.push_back(std::move(check));
  return checks;
}

}  // namespace gbcompress::cli
