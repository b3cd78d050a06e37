#pragma once
/// Activations of bridges and autoencoders.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace gbcompress::al {

enum class Activation : std::uint8_t { kTanh, kSigmoid, kRelu, kNone };
at::Tensor apply(Activation activation, const at::Tensor& x);

/// What is applied behind the layers of a component's bridge and autoencoder.
struct Forms {
  Activation codes = Activation::kTanh;  ///< behind g and the last layer of b: tanh or sigmoid
  Activation hidden =
      Activation::kRelu;  ///< behind the first of two layers of b: relu or the codes'
  Activation decoder = Activation::kNone;  ///< behind h: none or the codes'
};

/// Of the options `codes` (tanh, sigmoid), `hidden` (relu, codes) and `decoder` (none, codes); the
/// first of each where it is not given.
/// @param refuse  throws, for an option and what it must be
Forms read_forms(
    const std::map<std::string, std::string>& given,
    const std::function<void(const std::string& option, const std::string& rule)>& refuse);

enum class CodeLoss : std::uint8_t {
  kNats,  ///< half the squared error, summed over the code; cross-entropy of the first autoencoder
  /// The mean squared error; cross-entropy of the first autoencoder where h has no activation.
  kMse,
};

}  // namespace gbcompress::al
