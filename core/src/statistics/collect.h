#pragma once
/// Statistics as plain data (gbcompress/statistics.h), measured on a model.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "gbcompress/model.h"
#include "gbcompress/statistics.h"

namespace gbcompress {

/// Moments of wider matrices are not taken, nor more numbers of all together, 4 bytes each.
inline constexpr std::int64_t kWidest = 4096, kMostNumbers = 48 << 20;
/// Most rows of inputs that count for a matrix, of all samples together.
inline constexpr std::int64_t kInputRows = 1 << 15;

/// In row-major order.
std::vector<float> floats_of(const at::Tensor& tensor);

/// By the names of the model's tensors: input moments and means of weights that LayerInputs sees,
/// unless they are wider than 4096 or of grouped convolutions; the joint moment of both weights of
/// a recurrent layer, under "A|B"; row importance of every matrix, and moments between its rows
/// where memory allows, from gradients of the Fisher information (for_drawn_gradients()). The model
/// is in evaluation mode afterwards.
/// @throws Error(kNonFinite) as for_drawn_gradients()
Statistics collect_statistics(Model& model, const Dataset& samples, std::uint64_t seed);

}  // namespace gbcompress
