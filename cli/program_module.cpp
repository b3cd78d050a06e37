#include "program_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <string_view>

#include "gbcompress/error.h"
#include "gbcompress/version.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;

fs::path file_of(const ProgramModule& module) {
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed);
  return (program.parent_path() / module.from_program).lexically_normal();
}

[[noreturn]] void fail(const ProgramModule& module, const std::string& why) {
  throw Error(Errc::kFailure, std::string("this needs ") + module.needs + ", but " +
                                  printable(file_of(module).string()) + " " + why);
}

}  // namespace

void* module_entry(const ProgramModule& module) {
  void* library = ::dlopen(file_of(module).c_str(), module.flags);
  if (!library) {
    const char* reason = ::dlerror();
    fail(module,
         "cannot be loaded: " + printable(reason ? reason : "no reason") + "; " + module.advice);
  }
  return ::dlsym(library, module.entry);
}

void check_module_version(const ProgramModule& module, const char* version) {
  if (!version || std::string_view(version) != GBC_VERSION_STRING)
    fail(module, "is not of version " GBC_VERSION_STRING "; install both together");
}

}  // namespace gbcompress::cli
