#pragma once
/// What is a weight and what is not, told by name, type and values where nothing else is known.

#include <span>
#include <string_view>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "format/tensor_hint.h"

namespace GBC_INTERNAL gbcompress {

/// How a tensor is stored without data.
enum class WeightKind : std::uint8_t {
  kExact,   ///< bit for bit: integers, masks, constants, tables, anything that is not a weight
  kVector,  ///< a relative precision for each number: biases, scales, statistics, tiny tensors
  kMatrix,  ///< integers times a step
};

/// The kind of a tensor:
///   exact   another type than F16, BF16, F32 and F64; NaN or infinity; fewer than 2 numbers; all
///           the same; named as state of an optimizer, scheduler or trainer; a small table (one row
///           or column of fewer than 16,384 numbers) by its name or because it is an arithmetic
///           progression;
///   vector  another tensor of one row or column below 16,384 numbers, fewer than 64 numbers, or
///           scales of weights that were quantized before;
///   matrix  everything else.
/// @param values  of a tensor of a real type: its numbers as float32; else empty
/// @param hint    of a model with a graph, which then decides between vector and matrix; or null
WeightKind weight_kind(const TensorEntry& tensor, std::span<const float> values,
                       const TensorHint* hint = nullptr);

/// 0 and -infinity alone: what is added to attention's scores.
bool is_additive_mask(std::span<const float> values);

/// Whether NaN or infinity is in a tensor that is no additive mask.
/// @param values  as for weight_kind()
bool holds_non_numbers(const TensorEntry& tensor, std::span<const float> values);

}  // namespace gbcompress
