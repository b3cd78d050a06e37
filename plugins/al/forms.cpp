#include "forms.h"

#include <ATen/ATen.h>

namespace gbcompress::al {

std::string_view activation_name(Activation activation) {
  constexpr std::string_view kNames[] = {"tanh", "sigmoid", "relu", "none"};
  return kNames[static_cast<std::size_t>(activation)];
}

at::Tensor apply(Activation activation, const at::Tensor& x) {
  switch (activation) {
    case Activation::kTanh:
      return at::tanh(x);
    case Activation::kSigmoid:
      return at::sigmoid(x);
    case Activation::kRelu:
      return at::relu(x);
    case Activation::kNone:
      break;
  }
  return x;
}

}  // namespace gbcompress::al
