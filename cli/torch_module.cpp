// The module's one entry.
#include "torch_module.h"

#include <c10/util/Exception.h>

#include <map>

#include "gbcompress/error.h"
#include "gbcompress/version.h"

namespace gbcompress::cli {
namespace {

[[noreturn]] void fail(const c10::Error& error) {
  // The first line; LibTorch appends pages.
  const std::string text = error.what_without_backtrace();
  throw Error(Errc::kFailure, "LibTorch failed: " + printable(text.substr(0, text.find('\n'))));
}

int run(const std::string& verb, const Arguments& arguments) {
  static const std::map<std::string, int (*)(const Arguments&)> work = {
      {"bench", bench_with_torch},       {"compare", compare_with_torch},
      {"compress", compress_with_torch}, {"eval", eval_with_torch},
      {"expand", expand_with_torch},     {"inspect", inspect_with_torch},
      {"plugins", plugins_with_torch},   {"probe-plugin", probe_with_torch},
      {"sweep", sweep_with_torch}};
  try {
    return work.at(verb)(arguments);
  } catch (const c10::Error& error) {
    fail(error);
  }
}

std::vector<Check> checks(const Arguments& arguments) {
  try {
    return doctor_with_torch(arguments);
  } catch (const c10::Error& error) {
    fail(error);
  }
}

}  // namespace
}  // namespace gbcompress::cli

extern "C" const gbcompress::cli::TorchModule* gbcompress_torch_module() {
  static const gbcompress::cli::TorchModule module = {GBC_VERSION_STRING, gbcompress::cli::run,
                                                      gbcompress::cli::checks};
  return &module;
}
