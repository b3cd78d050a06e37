#pragma once
/// Finds and opens libgbcompress_cuda.so.

#include <filesystem>

#include "base/internal.h"
#include "cuda/module.h"
#include "cuda/nccl_module.h"

namespace gbcompress {
namespace GBC_INTERNAL cuda {

/// libgbcompress_cuda.so beside the library that holds this code.
std::filesystem::path module_path();

/// Opens a module, for the rest of the process.
/// @throws Error(kUsage) where it does not exist, cannot be linked, or is of another version
const Module& load_module(const std::filesystem::path& file);

/// The module's NCCL part.
/// @throws Error(kUsage) as load_module(), and where the module was built without NCCL
const NcclModule& load_nccl(const std::filesystem::path& file);

}  // namespace cuda
}  // namespace gbcompress
