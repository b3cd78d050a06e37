// In place of open_mount_module.cpp where libfuse3 was not found when this was built.
#include "gbcompress/error.h"
#include "mount_module.h"

namespace gbcompress::cli {

void serve_mount(const Mounting&) {
#ifdef GBC_PYTHON_COMMAND
  throw Error(Errc::kFailure,
              "this Python package has the command without `mount`; install libfuse3 with "
              "`apt-get install libfuse3-dev fuse3`, and build gbcompress from sources with "
              "`scripts/build`");
#else
  throw Error(Errc::kFailure,
              "this gbcompress was built without libfuse3; install it with `apt-get install "
              "libfuse3-dev fuse3`, and build gbcompress again");
#endif
}

}  // namespace gbcompress::cli
