#pragma once
/// The importance of each tensor's error for an untrained model, from a few hundred training
/// samples.

#include <cstdint>
#include <functional>
#include <vector>

#include "gbcompress/model.h"

namespace gbcompress {

/// Whether a tensor is trainable, its own, and of two and more dimensions.
bool is_matrix(const NamedParameter& tensor);

/// At most `count` samples, drawn by `seed` alone; of long ones fewer, 64 at least.
Dataset calibration_samples(const Dataset& data, std::int64_t count, std::uint64_t seed);
/// @throws Error(kNonFinite) unless the sum of the outputs is finite
void check_finite_outputs(const at::Tensor& outputs);

/// One gradient is of so many of all samples; their signs are drawn independently, so that cross
/// terms vanish on average over the gradients, of which there are hundreds.
std::int64_t gradient_batch(std::int64_t samples) noexcept;

/// Calls body() after each of many backward passes over some samples, the second moments of whose
/// .grad are those of the loss: the Fisher information of the classes' distribution, or where
/// targets are outputs that of normal distributions of deviation 1 around them. The model is in
/// evaluation mode afterwards, without gradients.
/// @param first  of the samples, a multiple of gradient_batch(), from where to `last`: what is
/// drawn
///               for a batch does not depend on the others
/// @param forward  if not null, is called around each forward pass with what computes it
/// @return outputs of these samples
/// @throws Error(kNonFinite) for outputs that are not finite
double for_drawn_gradients(Model& model, const Dataset& samples, std::int64_t first,
                           std::int64_t last, std::uint64_t seed, const std::function<void()>& body,
                           const std::function<at::Tensor(const at::Tensor&)>& forward = {});

/// In doubles, without a copy of what is float32 and contiguous.
double sum_of_squares(const at::Tensor& tensor);
/// Mean of the squares of its gradient; 0 where it has none. @throws Error(kNonFinite) naming it
double squared_gradient(const NamedParameter& tensor);

}  // namespace gbcompress
