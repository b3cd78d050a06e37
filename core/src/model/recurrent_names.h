#pragma once
/// Recurrent layers of a bare state dict: which they are stands in no name, but in how the sides of
/// their matrices go together.

#include "gbcompress/model.h"

namespace gbcompress {

/// Sets module_type of the matrices of recurrent layers (weight_ih_l0, weight_hh_l0_reverse,
/// weight_hr_l1, ...) and cells (weight_ih, weight_hh): LSTM, GRU, RNN, LSTMCell, GRUCell, RNNCell.
/// weight_hh is [gates * hidden, hidden]; with projections, which only LSTMs have, hidden is the
/// width of weight_hr. Layers whose sides fit none of them, or that lack weight_hh, keep their
/// type.
void guess_recurrent_types(std::vector<NamedParameter>& tensors);

}  // namespace gbcompress
