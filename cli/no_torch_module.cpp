// In place of open_torch_module.cpp where GBCOMPRESS_PORTABLE_ONLY is set.
#include "gbcompress/error.h"
#include "torch_module.h"

namespace gbcompress::cli {

int run_with_torch(const std::string&, const Arguments&) {
#ifdef GBC_PYTHON_COMMAND
  throw Error(
      Errc::kFailure,
      "this needs LibTorch; `pip install \"gbcompress[train]\"` brings it, or train in Python with "
      "gbcompress.prepare()");
#else
  throw Error(Errc::kFailure,
              "this needs LibTorch, and this gbcompress was built without it; build it without "
              "-DGBCOMPRESS_PORTABLE_ONLY=ON");
#endif
}

}  // namespace gbcompress::cli
