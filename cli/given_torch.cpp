#include "given_torch.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress::cli {
namespace {
namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(Errc::kFailure,
              "this needs LibTorch " GBC_TORCH_VERSION ", but the one at " +
                  printable(folder.string()) + " " + why + "; `pip install torch==" +
                  GBC_TORCH_VERSION "` brings that, or name the folder of one in GBCOMPRESS_TORCH");
}

/// "2.11.0" of "__version__ = '2.11.0+cu130'" (a wheel's file) or "2.11.0+cpu" (an archive's); ""
/// where neither is there.
std::string version_of(const fs::path& folder) {
  for (const char* name : {"version.py", "build-version"}) {
    std::ifstream file(folder / name);
    for (std::string line; std::getline(file, line);) {
      const bool python = line.starts_with("__version__");
      if (!python && std::string_view(name) == "version.py") continue;
      const std::size_t begin = line.find_first_of("0123456789");
      if (begin == std::string::npos) continue;
      return line.substr(begin, line.find_first_not_of("0123456789.", begin) - begin);
    }
  }
  return "";
}

}  // namespace

void open_given_torch() {
  const char* given = ::secure_getenv("GBCOMPRESS_TORCH");
  if (!given || !*given) {
#ifdef GBCOMPRESS_WHEEL  // a wheel's program was built where no LibTorch is now
    throw Error(Errc::kFailure, "this needs LibTorch " GBC_TORCH_VERSION
                                ", and no torch is installed beside this gbcompress; `pip install "
                                "torch==" GBC_TORCH_VERSION "` brings it");
#endif
    return;
  }
  const fs::path folder = given;
  const std::string version = version_of(folder);
  if (version.empty()) refuse(folder, "is none: it has neither version.py nor build-version");
  // Its C++ interface changes from one to the next.
  if (version != GBC_TORCH_VERSION) refuse(folder, "is " + printable(version));
  // In the order in which they need each other; global, as if the program were linked with them.
  for (const char* name : {"libgomp.so.1", "libc10.so", "libtorch_cpu.so"}) {
    const fs::path file = folder / "lib" / name;
    std::error_code ignored;
    if (std::string_view(name) == "libgomp.so.1" && !fs::exists(file, ignored)) continue;
    if (::dlopen(file.c_str(), RTLD_LAZY | RTLD_GLOBAL)) continue;
    const char* reason = ::dlerror();
    refuse(folder, "cannot be loaded (" + printable(reason ? reason : "no reason") + ")");
  }
}

}  // namespace gbcompress::cli
