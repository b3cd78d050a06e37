#pragma once
/// Work that needs LibTorch. It lies in a module of its own, libgbcompress_verbs.so, which the
/// program opens for such work: loading LibTorch takes ten times as long as listing a
/// file.

#include <string>
#include <vector>

#include "command.h"
#include "doctor.h"

namespace gbcompress::cli {

/// Runs a verb's part that needs LibTorch. @return the exit status
/// @throws Error(kFailure) where the module or LibTorch cannot be loaded; as the verb
int run_with_torch(const std::string& verb, const Arguments& arguments);

/// The rows of `doctor` about LibTorch and what is built on it.
/// @throws Error(kFailure) where the module or LibTorch cannot be loaded
std::vector<Check> checks_with_torch(const Arguments& arguments);

/// Where this program was built without such a module: how to install one that has it. "" where it
/// was built with it.
std::string how_to_get_torch();

/// What the module exports.
struct TorchModule {
  const char* version;  ///< GBC_VERSION_STRING
  int (*run)(const std::string& verb, const Arguments& arguments);
  std::vector<Check> (*checks)(const Arguments& arguments);
};
inline constexpr const char* kTorchModuleEntry = "gbcompress_torch_module";

// In the module, one a verb.
int bench_with_torch(const Arguments& arguments);
int compare_with_torch(
    const Arguments& arguments);  ///< outputs, TorchScript, layer types of plugins
int compress_with_torch(const Arguments& arguments);
std::vector<Check> doctor_with_torch(const Arguments& arguments);
int eval_with_torch(const Arguments& arguments);
int expand_with_torch(const Arguments& arguments);   ///< layer types of plugins
int inspect_with_torch(const Arguments& arguments);  ///< TorchScript, --plan
int plugins_with_torch(const Arguments& arguments);  ///< list, verify
int probe_with_torch(const Arguments& arguments);
int sweep_with_torch(const Arguments& arguments);

}  // namespace gbcompress::cli
