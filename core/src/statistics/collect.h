#pragma once
/// Statistics as plain data (gbcompress/statistics.h), measured on a model.

#include <cstdint>

#include "gbcompress/model.h"
#include "gbcompress/statistics.h"

namespace gbcompress {

/// Whether LayerInputs sees a recurrent layer in a forward pass of some samples. The model is in
/// evaluation mode afterwards.
bool has_recurrent_layers(Model& model, const Dataset& samples);

/// By the names of the model's tensors: input moments and means of weights that LayerInputs sees,
/// unless they are wider than 4096 or of grouped convolutions; the joint moment of both weights of
/// a recurrent layer, under "A|B"; row importance of every matrix, from gradients of drawn labels
/// (for_drawn_gradients()). The model is in evaluation mode afterwards.
/// @throws Error(kNonFinite) as for_drawn_gradients()
Statistics collect_statistics(Model& model, const Dataset& samples, std::uint64_t seed);

/// Whether two matrices are to be rounded as one.
bool has_joint_moments(const Statistics& statistics);

}  // namespace gbcompress
