#pragma once
/// What an observer of operators sees of a call.

#include <ATen/record_function.h>

#include <cstddef>

namespace gbcompress {

/// The call's arguments. In a loop of TorchScript what inputs() gives begins with values of the
/// interpreter.
inline c10::ArrayRef<const c10::IValue> arguments_of(const at::RecordFunction& call) {
  const auto values = call.inputs();
  const std::size_t count = call.num_inputs();
  return values.size() > count ? values.slice(values.size() - count) : values;
}

/// @return undefined where there is no such argument or it is no tensor
inline at::Tensor tensor_at(c10::ArrayRef<const c10::IValue> values, std::size_t i) {
  return i < values.size() && values[i].isTensor() ? values[i].toTensor() : at::Tensor();
}

/// What tensors that share memory share; null without storage.
inline const void* storage_of(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() ? tensor.storage().unsafeGetStorageImpl()
                                                  : nullptr;
}

}  // namespace gbcompress
