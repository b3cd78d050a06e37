// A module of another version.
#include "cuda/module.h"

extern "C" const gbcompress::cuda::Module* gbcompress_cuda_module() {
  static constexpr gbcompress::cuda::Module module = {
      .abi = gbcompress::cuda::kModuleAbi,
      .struct_size = sizeof(gbcompress::cuda::Module),
      .version = "0.0.0",
  };
  return &module;
}
