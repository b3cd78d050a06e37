// libgbcompress_cuda.so: the kernels of blocks.h and the little that needs CUDA's runtime, which is
// linked in statically, so that the module loads on a machine without CUDA and can say so.
#include <cuda_runtime.h>

#include "cuda/blocks.h"
#include "cuda/module.h"
#include "gbcompress/version.h"

namespace gbcompress::cuda {
namespace {

/// A thread block; see group.h.
class BlockGroup {
 public:
  __device__ __forceinline__ int size() const { return static_cast<int>(blockDim.x); }
  template <typename Work>
  __device__ __forceinline__ void each(const Work& work) const {
    work(static_cast<int>(threadIdx.x));
    __syncthreads();
  }
  template <typename T>
  class Local {
   public:
    __device__ __forceinline__ explicit Local(const BlockGroup&) {}
    __device__ __forceinline__ T& operator[](int) { return value_; }

   private:
    T value_{};
  };
};

extern __shared__ Four shared_memory[];

template <Operation kOperation, int kThreads, int kBlocksEach>
__global__ void __launch_bounds__(kThreads, kBlocksEach)
    run(const __grid_constant__ Arguments args) {
  run_block<kOperation>(BlockGroup(), args, blockIdx.x, gridDim.x, static_cast<int>(blockIdx.y),
                        shared_memory[0].v);
}

const char* said(cudaError_t error) {
  if (error == cudaSuccess) return nullptr;
  cudaGetLastError();  // the next call must not report this one again
  return cudaGetErrorString(error);
}

const char* devices(std::int32_t* count, std::int32_t* driver) {
  *count = *driver = 0;
  cudaDriverGetVersion(driver);
  const char* error = said(cudaGetDeviceCount(count));
  if (!error || *driver > 0) return error;
  return "no NVIDIA driver is installed";
}

const char* facts(std::int32_t device, DeviceFacts* facts) {
  cudaDeviceProp properties;
  if (const char* error = said(cudaGetDeviceProperties(&properties, device))) return error;
  for (std::size_t n = 0; n + 1 < sizeof(facts->name) && properties.name[n]; ++n)
    facts->name[n] = properties.name[n];
  facts->major = properties.major;
  facts->minor = properties.minor;
  facts->multiprocessors = properties.multiProcessorCount;
  facts->memory = static_cast<std::int64_t>(properties.totalGlobalMem);
  return said(cudaDeviceGetAttribute(&facts->kilohertz, cudaDevAttrClockRate, device));
}

const char* use(std::int32_t device, std::int32_t* before) {
  if (const char* error = said(cudaGetDevice(before))) return error;
  return *before == device ? nullptr : said(cudaSetDevice(device));
}

const char* allocate(void** memory, std::int64_t bytes, void* stream) {
  // Without this the pool gives memory back to the system at every synchronization.
  int device = 0;
  cudaMemPool_t pool = nullptr;
  std::uint64_t keep = std::uint64_t{256} << 20;
  if (const char* error = said(cudaGetDevice(&device))) return error;
  if (const char* error = said(cudaDeviceGetDefaultMemPool(&pool, device))) return error;
  if (const char* error =
          said(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep)))
    return error;
  return said(
      cudaMallocAsync(memory, static_cast<std::size_t>(bytes), static_cast<cudaStream_t>(stream)));
}

const char* release(void* memory, void* stream) {
  return said(cudaFreeAsync(memory, static_cast<cudaStream_t>(stream)));
}

const char* copy(void* to, const void* from, std::int64_t bytes, void* stream) {
  return said(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), cudaMemcpyDefault,
                              static_cast<cudaStream_t>(stream)));
}

const char* finish(void* stream) {
  return said(cudaStreamSynchronize(static_cast<cudaStream_t>(stream)));
}

const char* on_device(const void* memory, bool* answer) {
  cudaPointerAttributes attributes;
  const char* error = said(cudaPointerGetAttributes(&attributes, memory));
  *answer = !error &&
            (attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged);
  return error;
}

template <Operation kOperation, int kThreads, int kBlocksEach>
const char* launch_one(const Arguments& args, const Grid& grid, cudaStream_t stream) {
  const auto kernel = run<kOperation, kThreads, kBlocksEach>;
  const auto bytes = static_cast<int>(grid.shared_bytes);
  if (bytes > 48 * 1024)
    if (const char* error =
            said(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes)))
      return error;
  kernel<<<dim3(static_cast<unsigned>(grid.blocks), static_cast<unsigned>(grid.layers)),
           static_cast<unsigned>(grid.threads), static_cast<std::size_t>(bytes), stream>>>(args);
  return said(cudaGetLastError());
}

const char* launch(Operation operation, const Arguments* args, const Grid* grid, void* queue) {
  const auto stream = static_cast<cudaStream_t>(queue);
  switch (operation) {
    case Operation::kForward:
      return launch_one<Operation::kForward, kForwardThreads, 2>(*args, *grid, stream);
    case Operation::kBackward:
      return launch_one<Operation::kBackward, kBackwardThreads, 2>(*args, *grid, stream);
    case Operation::kForwardDeep:
      return launch_one<Operation::kForwardDeep, kDeepThreads, 4>(*args, *grid, stream);
    case Operation::kBackwardDeep:
      return launch_one<Operation::kBackwardDeep, kDeepThreads, 2>(*args, *grid, stream);
    case Operation::kAddPartials:
      return launch_one<Operation::kAddPartials, kSumThreads, 1>(*args, *grid, stream);
  }
  return "the module does not know this operation";
}

constexpr Module kModule = {
    .abi = kModuleAbi,
    .struct_size = sizeof(Module),
    .version = GBC_VERSION_STRING,
    .built_with = GBC_CUDA_BUILT_WITH,
    .runtime = CUDART_VERSION,
    .devices = devices,
    .facts = facts,
    .use = use,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .finish = finish,
    .on_device = on_device,
    .launch = launch,
};

}  // namespace
}  // namespace gbcompress::cuda

extern "C" __attribute__((visibility("default"))) const gbcompress::cuda::Module*
gbcompress_cuda_module() {
  return &gbcompress::cuda::kModule;
}
