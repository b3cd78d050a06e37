#include "forms.h"

#include <ATen/ATen.h>

namespace gbcompress::al {

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

Forms read_forms(
    const std::map<std::string, std::string>& given,
    const std::function<void(const std::string& option, const std::string& rule)>& refuse) {
  /// Whether it is `other` instead of `usual`.
  const auto is_other = [&](const char* option, const std::string& usual,
                            const std::string& other) {
    const auto found = given.find(option);
    if (found == given.end() || found->second == usual) return false;
    if (found->second != other) refuse(option, "must be " + usual + " or " + other);
    return true;
  };
  Forms forms;
  if (is_other("codes", "tanh", "sigmoid")) forms.codes = Activation::kSigmoid;
  if (is_other("hidden", "relu", "codes")) forms.hidden = forms.codes;
  if (is_other("decoder", "none", "codes")) forms.decoder = forms.codes;
  return forms;
}

}  // namespace gbcompress::al
