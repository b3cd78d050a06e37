#include <dlfcn.h>

#include <cstdlib>

#include "gbcompress/version.h"
#include "given_torch.h"
#include "program_module.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

/// LibTorch's threads are to sleep while they wait for each other, unless the environment says
/// otherwise: one that spins keeps the core from the very thread it waits for, where other programs
/// use the machine. OpenMP reads its environment when it is loaded, which is with LibTorch.
void let_threads_sleep() {
  for (const char* name : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME"})
    if (std::getenv(name)) return;
  ::setenv("OMP_WAIT_POLICY", "passive", /*overwrite=*/1);
}

/// Never closed: LibTorch's threads and exit handlers point into what is loaded with it.
const TorchModule& open_torch_module() {
  let_threads_sleep();
  open_given_torch();
  return open_module<TorchModule>(
      {.needs = "LibTorch",
       .from_program = GBC_VERBS_FROM_PROGRAM,
       .entry = kTorchModuleEntry,
       .flags = RTLD_LAZY | RTLD_GLOBAL,  // as if the program were linked with it
       .advice = "put LibTorch back to where it was when gbcompress was built, or name the folder "
                 "of another LibTorch " GBC_TORCH_VERSION " in GBCOMPRESS_TORCH"});
}

const TorchModule& torch_module() {
  static const TorchModule& module = open_torch_module();
  return module;
}

}  // namespace

int run_with_torch(const std::string& verb, const Arguments& arguments) {
  return torch_module().run(verb, arguments);
}

std::vector<Check> checks_with_torch(const Arguments& arguments) {
  return torch_module().checks(arguments);
}

std::string how_to_get_torch() { return ""; }

}  // namespace gbcompress::cli
