#pragma once
/// Tensors of integer types: those of models that were quantized before.

#include <optional>

#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

/// The elements as integers, in whichever form takes the fewest bytes: as they are, wide, or as
/// nibbles. Nothing if the type is not an integer type, there are no elements, or the profile
/// cannot code them.
std::optional<CodedValues> whole_numbers(const TensorEntry& tensor, CodecProfile profile);

/// About what the integers take, coded by themselves.
double coded_bytes(const CodedValues& values, CodecProfile profile);

}  // namespace gbcompress
