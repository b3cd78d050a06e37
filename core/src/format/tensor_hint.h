#pragma once
/// What a model's graph says about its tensors, for data-free compression.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

/// What is likely of a convolution's inputs where nothing was measured.
struct LikelyInputs {
  bool positive = false;  ///< none is negative: they come from a ReLU, say
  /// Sides of a kernel over an image, whose neighbors resemble each other: of a row's elements, so
  /// many after another belong to one channel. Empty: nothing is known.
  std::vector<std::int64_t> kernel;
};

struct TensorHint {
  enum class Kind : std::uint8_t {
    kUnknown,  ///< told by name, shape and values
    kExact,    ///< bit for bit
    kShort,    ///< a relative precision for each element: biases, scales of norms
    kWeight,   ///< integers times a step size, unless it has few elements
  };
  Kind kind = Kind::kUnknown;
  /// Of weights: how the elements lie, row-major (IntegerGrid in codec.h); 0 rows: as the shape
  /// says.
  std::int64_t rows = 0, cols = 0;
  bool row_steps = true;  ///< of weights: whether rows may have step sizes of their own
  LikelyInputs inputs;
  /// Empty, or what a norm behind the weight multiplies each row of its outputs by; 0 or above.
  std::vector<float> row_scales;
  std::vector<std::string> consumers;  ///< operators that take the tensor: "Conv", "Add"
};

/// By tensor's name.
using TensorHints = std::map<std::string, TensorHint>;

/// Of a bundle that open_tensors() read from a file with a graph; else none.
/// @throws as open_tensors()
TensorHints hints_of(const TensorBundle& bundle);

}  // namespace gbcompress
