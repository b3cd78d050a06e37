#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "gbcompress/error.h"
#include "gbcompress/version.h"
#include "mount_module.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;

void serve_mount(const Mounting& mounting) {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  const fs::path file = (program.parent_path() / GBC_MOUNT_FROM_PROGRAM).lexically_normal();
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char* reason = ::dlerror();
    throw Error(Errc::kFailure,
                "this needs libfuse3, but " + printable(file.string()) +
                    " cannot be loaded: " + printable(reason ? reason : "no reason") +
                    "; install it with `apt-get install fuse3`");
  }
  const auto entry = reinterpret_cast<MountModuleEntry*>(::dlsym(library, kMountModuleEntry));
  if (!entry || std::string_view(entry()->version) != GBC_VERSION_STRING)
    throw Error(Errc::kFailure, printable(file.string()) + " is not of version " GBC_VERSION_STRING
                                                           "; install both together");
  entry()->serve(mounting);
}

}  // namespace gbcompress::cli
