#pragma once
/// What changed of a tensor since a base, and what a file keeps of the change.

#include <cstddef>
#include <span>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/base_model.h"
#include "gbcompress/tensors.h"

namespace gbcompress {

/// The base's tensor of the same name, type and shape, which a change can refer to; else nullptr,
/// also without a base.
const TensorEntry* entry_before(const BaseModel* base, const TensorEntry& tensor) noexcept;

/// Sums over the elements of a tensor of real numbers.
struct ChangeSums {
  double error = 0;   ///< squares of what the file has minus the source
  double change = 0;  ///< squares of the source minus the base

  /// The squared error over the squares of the change; where nothing changed, 1 if there is an
  /// error.
  double relative() const noexcept { return change > 0 ? error / change : error > 0 ? 1 : 0; }
};

/// Of a tensor of real numbers. From NaN or infinity in a base nothing changed by any amount: to
/// such tensors nothing is compared.
bool is_finite(const TensorEntry& tensor);

/// In float64, which holds the elements of every real type.
/// @param before  the base's tensor, of the source's type and shape; is_finite(), as the source is
/// @param stored  elements of the same type and number
ChangeSums change_sums(const TensorEntry& source, const TensorEntry& before,
                       std::span<const std::byte> stored);

/// The elements that decoding a tensor of such integers on a base gives.
std::vector<std::byte> on_base(const CodedValues& values, const TensorEntry& before);

}  // namespace gbcompress
