#pragma once
/// The threads of one block. The kernels are written once against a small interface, `Group`: in
/// the module it is a thread block (block_group.cuh), in tests/cuda a plain loop on the host, so
/// that the same text is tested without a GPU.
///
///   int size() const                  how many threads
///   void each(work) const             work(thread) for all; everybody waits at its end
///   Local<T> local(group)             a T for each thread, zero at first; local[thread]
///
/// Inside one each(), threads see what others wrote in earlier ones and do not touch what others
/// write in the same one. Sums over threads go through shared memory in a fixed order, never
/// through atomics, so that every run gives the same bits.

#include <cmath>
#include <cstdint>

#ifdef __CUDACC__
#define GBC_DEVICE __device__ __forceinline__
#define GBC_UNROLL _Pragma("unroll")
#else
#define GBC_DEVICE inline
#define GBC_UNROLL
#endif

namespace gbcompress::cuda {

/// Four neighboring numbers at 16-byte alignment, moved by one instruction.
struct alignas(16) Four {
  float v[4];
};
GBC_DEVICE Four load_four(const float* at) { return *reinterpret_cast<const Four*>(at); }
GBC_DEVICE void store_four(float* at, const Four& four) { *reinterpret_cast<Four*>(at) = four; }

struct alignas(8) Two {
  float v[2];
};
GBC_DEVICE Two load_two(const float* at) { return *reinterpret_cast<const Two*>(at); }

/// 1 where x > y, else 0.
GBC_DEVICE float greater(float x, float y) {
#ifdef __CUDACC__
  float result;  // one instruction, where a comparison and a selection would be two
  asm("set.gt.f32.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(y));
  return result;
#else
  return x > y ? 1.0f : 0.0f;
#endif
}

GBC_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
GBC_DEVICE int rounded_up(int n, int to) { return (n + to - 1) / to * to; }

}  // namespace gbcompress::cuda
