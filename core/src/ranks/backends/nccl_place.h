#pragma once
/// What a rank needs before it can use NCCL: the module, its library, a GPU.

#include <filesystem>
#include <string>

#include "base/internal.h"
#include "cuda/module.h"
#include "cuda/nccl_module.h"
#include "gbcompress/ranks.h"

namespace GBC_INTERNAL gbcompress {

struct NcclPlace {
  const cuda::Module* gpu = nullptr;
  const cuda::NcclModule* nccl = nullptr;
  int device = 0;
};

/// @param module  empty: libgbcompress_cuda.so beside libgbcompress.so
/// @throws Error(kUsage) naming what is missing
NcclPlace find_nccl(const Launch& launch, const std::filesystem::path& module);

/// "2.28.9" of NCCL_VERSION_CODE.
std::string nccl_version_text(int code);
/// Why a library cannot be used by what was built with a header; "" where it can: the same major
/// version, and not older in the minor one.
std::string nccl_mismatch(int header, int library);

}  // namespace gbcompress
