#pragma once
/// How each tensor is stored in files that nobody trains: decided by its values first, then by the
/// tensors beside it, last by its name. What a request changes of that, `classify()` in
/// allocation/bit_allocation.cpp adds: rules, a base, ties.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/internal.h"
#include "format/tensor_bundle.h"
#include "format/tensor_hint.h"

namespace GBC_INTERNAL gbcompress {

/// How a tensor is stored where the file may have losses.
enum class WeightKind : std::uint8_t {
  kExact,   ///< bit for bit: integers, masks, constants, tables, anything that is not a weight
  kVector,  ///< a relative precision for each number: biases, scales, statistics, tiny tensors
  kMatrix,  ///< integers times a step
};

/// Whether at most one side is above 1: such tensors have a relative precision, whatever their
/// length.
bool is_line(const std::vector<std::int64_t>& shape) noexcept;

/// The kind of a tensor, by the first of these that decides:
///   exact   another type than F16, BF16, F32 and F64; fewer than 2 values; NaN or infinity; all
///           the same; named as state of an optimizer, scheduler or trainer; what a graph says to
///           be exact; parameters of packed weights; is_structure(); small tables by their names
///   vector  is_line(), fewer than 64 values, and what a graph says to be a vector
///   matrix  everything else
/// Tensors of few values, whose exact form may take less than one with losses, are found apart:
/// find_levels().
/// @param values  of a tensor of a real type: its values as float32; else empty
/// @param packed  packed_parameters() of it
/// @param hint    of a model with a graph, or null
WeightKind weight_kind(const TensorEntry& tensor, std::span<const float> values,
                       bool packed = false, const TensorHint* hint = nullptr);

/// "conv.bias" of "conv.weight", "lstm.bias_ih_l0" of "lstm.weight_ih_l0"; "" for other names.
std::string bias_of(const std::string& name);

/// Values that are NaN or infinity.
struct NotFinite {
  std::int64_t count = 0;
  std::int64_t first_row = 0;  ///< index along the first dimension; of vectors of the element
};
/// Nothing where all values are finite, or all are 0 or -infinity: a mask that is added to scores
/// of attention. Values of float64 above float32's range are finite.
/// @param values  as for weight_kind()
std::optional<NotFinite> not_finite(const TensorEntry& tensor, std::span<const float> values);

/// "2 tensors with NaN or infinity are stored exactly: bn.running_var (1 value, row 7), ..."; ""
/// without any.
struct NotFiniteTensor {
  std::string name;
  NotFinite facts;
};
std::string not_finite_note(const std::vector<NotFiniteTensor>& tensors);

}  // namespace gbcompress
