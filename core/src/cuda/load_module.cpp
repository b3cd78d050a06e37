#include "cuda/load_module.h"

#include <dlfcn.h>

#include <string>

#include "cuda/cuda_kernel.h"
#include "cuda/make_kernel.h"
#include "gbcompress/error.h"
#include "gbcompress/version.h"

namespace gbcompress {
namespace cuda {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const fs::path& file, const std::string& why) {
  throw Error(Errc::kUsage, "the module of kernel cuda, " + printable(file.string()) + ", " + why +
                                "; use kernel fused");
}

[[noreturn]] void refuse_nccl(const fs::path& file, const std::string& why) {
  throw Error(Errc::kUsage, "the backend is nccl, but its module " + printable(file.string()) +
                                " " + why + "; use `backend` gloo");
}

/// Never closed: CUDA's own threads and exit handlers may point into it.
void* open_library(const fs::path& file) {
  return ::dlopen(fs::absolute(file).c_str(), RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

fs::path module_path() {
  Dl_info info{};
  std::error_code failed;
  if (::dladdr(reinterpret_cast<const void*>(&module_path), &info) && info.dli_fname) {
    const fs::path library = fs::canonical(info.dli_fname, failed);
    if (!failed) return library.parent_path() / "libgbcompress_cuda.so";
  }
  return "libgbcompress_cuda.so";
}

const Module& load_module(const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed))
    refuse(file, "does not exist; build it with -DGBCOMPRESS_CUDA=ON");
  void* library = open_library(file);
  if (!library) {
    const char* reason = ::dlerror();
    refuse(file, "cannot be linked into this program: " + printable(reason ? reason : "no reason"));
  }
  const auto entry = reinterpret_cast<ModuleEntry>(::dlsym(library, kModuleEntry));
  if (!entry) refuse(file, std::string("has no entry function ") + kModuleEntry);
  const Module& module = *entry();
  if (module.abi != kModuleAbi || module.struct_size != sizeof(Module) ||
      std::string_view(module.version) != GBC_VERSION_STRING)
    refuse(file, "is not of version " GBC_VERSION_STRING "; build both together");
  return module;
}

const NcclModule& load_nccl(const fs::path& file) {
  std::error_code failed;
  if (!fs::is_regular_file(file, failed))
    refuse_nccl(file, "does not exist (it is built with -DGBCOMPRESS_CUDA=ON)");
  void* library = open_library(file);
  if (!library) {
    const char* reason = ::dlerror();
    refuse_nccl(file, "cannot be linked into this program: " + printable(reason ? reason : "?"));
  }
  const auto entry = reinterpret_cast<NcclEntry>(::dlsym(library, kNcclEntry));
  if (!entry) refuse_nccl(file, "was built without nccl.h");
  const NcclModule& module = *entry();
  if (module.abi != kNcclAbi || module.struct_size != sizeof(NcclModule) ||
      std::string_view(module.version) != GBC_VERSION_STRING)
    refuse_nccl(file, "is not of version " GBC_VERSION_STRING " (build both together)");
  return module;
}

}  // namespace cuda

std::unique_ptr<TileKernel> make_cuda_kernel(const CudaOptions& options) {
  const auto file = options.module.empty() ? cuda::module_path() : options.module;
  return cuda::make_kernel(cuda::load_module(file), options, {});
}

CudaStatus cuda_status(const std::filesystem::path& module) {
  CudaStatus status;
  const auto file = module.empty() ? cuda::module_path() : module;
  std::error_code ignored;
  if (!std::filesystem::exists(file, ignored)) {
    status.no_gpu = "not looked for without the module";
    return status;
  }
  try {
    const cuda::Module& opened = cuda::load_module(file);
    status.module =
        std::string(opened.version) + ", " + opened.built_with + ", " + printable(file.string());
    std::int32_t count = 0, driver = 0;
    if (const char* error = opened.devices(&count, &driver)) status.no_gpu = printable(error);
    for (std::int32_t n = 0; n < count; ++n) {
      cuda::DeviceFacts facts;
      const char* error = opened.facts(n, &facts);
      status.gpus.push_back(error ? printable(error)
                                  : printable(facts.name) + ", sm_" + std::to_string(facts.major) +
                                        std::to_string(facts.minor) + ", " +
                                        std::to_string(facts.memory >> 30) + " GiB");
    }
    if (count == 0 && status.no_gpu.empty()) status.no_gpu = "this machine has none";
  } catch (const Error& error) {
    status.module = printable(file.string());
    status.problem = error.what();
  }
  return status;
}

}  // namespace gbcompress
