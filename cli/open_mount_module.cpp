#include <dlfcn.h>

#include "mount_module.h"
#include "program_module.h"

namespace gbcompress::cli {

void serve_mount(const Mounting& mounting) {
  open_module<MountModule>({.needs = "libfuse3",
                            .from_program = GBC_MOUNT_FROM_PROGRAM,
                            .entry = kMountModuleEntry,
                            .flags = RTLD_NOW | RTLD_LOCAL,
                            .advice = "install it with `apt-get install fuse3`"})
      .serve(mounting);
}

}  // namespace gbcompress::cli
