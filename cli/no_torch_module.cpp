// In place of open_torch_module.cpp where GBCOMPRESS_PORTABLE_ONLY is set.
#include "gbcompress/error.h"
#include "gbcompress/version.h"
#include "torch_module.h"

namespace gbcompress::cli {

std::string how_to_get_torch() {
#ifdef GBC_PYTHON_COMMAND
  return "this Python package has the command without LibTorch; install the other wheel that "
         "scripts/wheel builds, `pip install gbcompress_train-" GBC_VERSION_STRING
         "-*.whl`, or train in Python with gbcompress.prepare()";
#else
  return "this gbcompress was built without LibTorch; install one from sources with "
         "`scripts/build && cmake --install build/release --prefix DIR`";
#endif
}

int run_with_torch(const std::string&, const Arguments&) {
  throw Error(Errc::kFailure, "this needs LibTorch, and " + how_to_get_torch());
}

std::vector<Check> checks_with_torch(const Arguments&) {
  throw Error(Errc::kFailure, "this needs LibTorch, and " + how_to_get_torch());
}

}  // namespace gbcompress::cli
