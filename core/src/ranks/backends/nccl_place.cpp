#include "ranks/backends/nccl_place.h"

#include "cuda/load_module.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress {
namespace {

[[noreturn]] void unusable(const std::string& why) {
  throw Error(Errc::kUsage, "the backend is nccl, but " + why + "; use `backend` gloo");
}

std::filesystem::path file_of(const std::filesystem::path& module) {
  return module.empty() ? cuda::module_path() : module;
}

}  // namespace

NcclPlace find_nccl(const Launch& launch, const std::filesystem::path& module) {
  NcclPlace place;
  place.nccl = &cuda::load_nccl(file_of(module));
  place.gpu = &cuda::load_module(file_of(module));
  std::int32_t library = 0;
  if (const char* error = place.nccl->load(&library))
    unusable("its library cannot be opened: " + printable(error));
  if (const std::string why = nccl_mismatch(place.nccl->header, library); !why.empty())
    unusable(why);
  std::int32_t gpus = 0, driver = 0;
  if (const char* error = place.gpu->devices(&gpus, &driver))
    unusable("no GPU can be used: " + printable(error));
  if (gpus == 0) unusable("this machine has no GPU");
  try {
    place.device = launch.world > 1 ? pick_gpu(launch, gpus) : 0;
  } catch (const Error& error) {
    unusable(error.what());
  }
  return place;
}

NcclStatus nccl_status(const std::filesystem::path& module) {
  NcclStatus status;
  try {
    const cuda::NcclModule& nccl = cuda::load_nccl(file_of(module));
    status.versions = "header " + nccl_version_text(nccl.header);
    std::int32_t library = 0;
    if (const char* error = nccl.load(&library)) {
      status.versions += ", library none: " + printable(error);
    } else {
      status.versions += ", library " + nccl_version_text(library);
      status.problem = nccl_mismatch(nccl.header, library);
    }
  } catch (const Error&) {
    // No module, or not for this: nothing to report that the module's own check does not.
  }
  return status;
}

}  // namespace gbcompress
