#pragma once
/// The rules that every file format here puts on named tensors.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr std::size_t kMaxTensorRank = 8;
inline constexpr std::size_t kMaxTensorName = 512;  ///< bytes
inline constexpr std::size_t kMaxTensors = 1'000'000;

/// UTF-8, 1 to 512 bytes, no control characters, not "__metadata__".
/// @param label  what the name was found in, for the message
/// @throws Error(kLimit) for a long one, Error(kCorrupt)
void check_tensor_name(std::string_view name, const std::string& label);

/// Bytes that a tensor takes.
/// @param what  the tensor, for messages: "model.safetensors: tensor fc.weight"
/// @throws Error(kLimit) above 8 dimensions or 2^63 bits; Error(kCorrupt) for a negative side or
///         where elements of 4 or 6 bits do not fill whole bytes
std::int64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                          const std::string& what);

/// Tensors of the same elements, type and shape share their bytes from then on, and are stored
/// once. Those whose elements are all the same are left alone: they take no more than one element.
/// @param among  which tensors; empty: all
void share_equal(TensorBundle& bundle, const std::function<bool(const TensorEntry&)>& among = {});

}  // namespace gbcompress
