#pragma once
/// Tensors of whole numbers as integers: those of models that were quantised before.

#include <optional>

#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

/// The elements as integers, in whichever form takes the fewest bytes: as they are, wide, or as
/// nibbles. Nothing where the type has no whole numbers, there are none, or the profile cannot code
/// them.
std::optional<CodedValues> whole_numbers(const TensorEntry& tensor, CodecProfile profile);

/// About what the integers take, coded by themselves.
double coded_bytes(const CodedValues& values, CodecProfile profile);

}  // namespace gbcompress
