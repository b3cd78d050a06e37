#pragma once
/// Several tensors at once into the caller's memory.

#include <atomic>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "base/internal.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace GBC_INTERNAL gbcompress {

/// What read_into() takes for one tensor.
struct ReadRequest {
  std::size_t tensor = 0;
  DType dtype = DType::kF32;
  std::span<std::byte> bytes;
};

/// How far read_many() is, for other threads.
struct ReadProgress {
  /// Called by the threads that decode, in any order, once the memory of a request is complete.
  std::function<void(std::size_t request)> done;
  std::atomic<bool> stop = false;  ///< set: no further part of a tensor is begun, without an error
};

/// The tensor that holds the values of a tied one; of others, itself.
std::size_t owner_of(const ArtifactReader& artifact, std::size_t tensor);

/// @throws Error(kUsage) as read_into(), for a type or memory that does not fit the tensor
void check_type(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                std::span<const std::byte> bytes);

/// @throws Error(kUsage, kShapeMismatch) as read_into(), for a request that does not fit
void check_request(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                   std::span<const std::byte> bytes);

/// @throws Error(kUsage, kShapeMismatch) as read_slice(), for a request that does not fit
void check_slice(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
                 std::int64_t first, std::span<const std::byte> bytes);

/// Whether tensors can be decoded on several threads, each on one: g-nets of one tensor are made on
/// all threads, and the profile small is one stream.
bool decodes_apart(const ArtifactReader& artifact) noexcept;

/// Whether read_into() decodes this tensor without memory in between.
bool reads_directly(const ArtifactReader& artifact, std::size_t tensor) noexcept;

/// read_into() for each of them; the threads share the stripes of all tensors. Nothing is written
/// before all requests are checked. @throws as read_into()
void read_many(const ArtifactReader& artifact, std::span<const ReadRequest> requests,
               const DecodeOptions& options = {}, ReadProgress* progress = nullptr);

}  // namespace gbcompress
