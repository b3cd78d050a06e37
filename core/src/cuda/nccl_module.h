#pragma once
/// The second door of libgbcompress_cuda.so: NCCL, where the module was built with its header. The
/// library itself, libnccl.so.2, is opened at run time, so that the module loads without it. Every
/// call returns at once; what it began is done when busy() and passed() say so.

#include <cstddef>
#include <cstdint>

namespace gbcompress::cuda {

/// 1  first release
/// 2  send, receive
inline constexpr std::uint32_t kNcclAbi = 2;
inline constexpr const char* kNcclEntry = "gbcompress_nccl_module";
inline constexpr std::size_t kNcclIdBytes = 128;

/// A function that can fail returns null for success, otherwise what failed, a string that lives
/// for ever. Pointers to data are device memory; streams are cudaStream_t. Counts are of bytes
/// unless said otherwise. The calling thread's current device is used throughout.
struct NcclModule {
  std::uint32_t abi;          ///< kNcclAbi; new members go to the end and raise it
  std::uint32_t struct_size;  ///< sizeof(NcclModule)
  const char* version;        ///< of gbcompress; must equal the core's
  std::int32_t header;        ///< NCCL_VERSION_CODE, 22809 = 2.28.9

  /// Opens libnccl.so.2, once: where LD_LIBRARY_PATH says, beside the header's package, the
  /// system's.
  const char* (*load)(std::int32_t* runtime);
  const char* (*new_id)(void* id);
  /// All ranks call it with rank 0's id; ready when busy() says so.
  const char* (*open)(void** comm, const void* id, std::int32_t rank, std::int32_t world);
  /// Whether a call is still under way; an error of any rank is reported here too.
  const char* (*busy)(void* comm, bool* answer);
  const char* (*all_reduce)(void* comm, float* data, std::int64_t floats, void* stream);
  const char* (*broadcast)(void* comm, void* data, std::int64_t bytes, std::int32_t from,
                           void* stream);
  /// @param all  [world][bytes]
  const char* (*all_gather)(void* comm, const void* mine, void* all, std::int64_t bytes,
                            void* stream);
  /// To and from each rank so many floats, one after another.
  const char* (*exchange)(void* comm, const float* out, const std::int64_t* sent, float* in,
                          const std::int64_t* received, std::int32_t world, void* stream);
  void (*abort)(void* comm);  ///< ends whatever it does, and frees it
  void (*close)(void* comm);  ///< nothing may be under way

  const char* (*new_stream)(void** stream);
  void (*free_stream)(void* stream);
  /// A point in a stream, and whether it has been passed.
  const char* (*mark)(void** mark, void* stream);
  const char* (*passed)(void* mark, bool* answer);
  void (*free_mark)(void* mark);

  /// From one rank to another; the other calls the second with as many bytes.
  const char* (*send)(void* comm, const void* data, std::int64_t bytes, std::int32_t to,
                      void* stream);
  const char* (*receive)(void* comm, void* data, std::int64_t bytes, std::int32_t from,
                         void* stream);
};

using NcclEntry = const NcclModule* (*)();

}  // namespace gbcompress::cuda
