#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "base/text.h"
#include "gbcompress/error.h"
#include "gbcompress/version.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {
namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& file, const std::string& why) {
  throw Error(Errc::kFailure, "this needs LibTorch, but " + printable(file.string()) + " " + why);
}

/// Never closed: LibTorch's threads and exit handlers point into what is loaded with it.
const TorchModule& open_torch_module() {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  const fs::path file = (program.parent_path() / GBC_VERBS_FROM_PROGRAM).lexically_normal();
  // Global, as if the program were linked with it.
  void* library = ::dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL);
  if (!library) {
    const char* reason = ::dlerror();
    fail(file, "cannot be loaded: " + printable(reason ? reason : "no reason") +
                   "; put LibTorch back to where it was when gbcompress was built, or build again");
  }
  const auto entry = reinterpret_cast<TorchModuleEntry*>(::dlsym(library, kTorchModuleEntry));
  if (!entry || std::string_view(entry()->version) != GBC_VERSION_STRING)
    fail(file, "is not of version " GBC_VERSION_STRING "; install both together");
  return *entry();
}

}  // namespace

int run_with_torch(const std::string& verb, const Arguments& arguments) {
  static const TorchModule& module = open_torch_module();
  return module.run(verb, arguments);
}

}  // namespace gbcompress::cli
