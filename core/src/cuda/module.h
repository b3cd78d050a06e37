#pragma once
/// The door between the core and libgbcompress_cuda.so: one C function that returns a table. The
/// core decides everything (pieces, sizes, order); the module allocates, copies and launches.

#include <cstddef>
#include <cstdint>

#include "cuda/arguments.h"

namespace gbcompress::cuda {

/// 1  first release
inline constexpr std::uint32_t kModuleAbi = 1;
inline constexpr const char* kModuleEntry = "gbcompress_cuda_module";

struct DeviceFacts {
  char name[256] = {};
  std::int32_t major = 0, minor = 0;  ///< compute capability
  std::int32_t multiprocessors = 0;
  std::int32_t kilohertz = 0;  ///< highest clock
  std::int64_t memory = 0;     ///< bytes
};

/// A stream is a cudaStream_t, null for the default one. A function that can fail returns null for
/// success, otherwise what failed, a string that lives for ever.
struct Module {
  std::uint32_t abi;          ///< kModuleAbi; new members go to the end and raise it
  std::uint32_t struct_size;  ///< sizeof(Module)
  const char* version;        ///< of gbcompress; must equal the core's
  const char* built_with;     ///< "nvcc 13.0 for sm_80, sm_90"
  std::int32_t runtime;       ///< CUDA version, 13000 = 13.0

  const char* (*devices)(std::int32_t* count, std::int32_t* driver);
  const char* (*facts)(std::int32_t device, DeviceFacts* facts);
  /// Makes a device the calling thread's current one and tells which it was.
  const char* (*use)(std::int32_t device, std::int32_t* before);
  const char* (*allocate)(void** memory, std::int64_t bytes, void* stream);
  const char* (*release)(void* memory, void* stream);
  /// Between host and device in any direction. Host memory that is not page-locked may be changed
  /// or freed when it returns.
  const char* (*copy)(void* to, const void* from, std::int64_t bytes, void* stream);
  /// Waits for all work of a stream.
  const char* (*finish)(void* stream);
  /// Whether a pointer may be used on the device.
  const char* (*on_device)(const void* memory, bool* answer);
  const char* (*launch)(Operation operation, const Arguments* args, const Grid* grid, void* stream);
};

using ModuleEntry = const Module* (*)();

}  // namespace gbcompress::cuda
