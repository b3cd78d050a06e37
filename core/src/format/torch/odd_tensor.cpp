#include "format/torch/odd_tensor.h"

#include <string_view>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Row {
  std::string_view part;  ///< of the class, of the maker, or of what the pickle machine says
  std::string_view kind;
  std::string_view call;
};

// The first that fits counts.
constexpr Row kRows[] = {
    {"sparse", "a sparse tensor", "save it as .to_dense()"},
    {"_rebuild_qtensor", "a quantized tensor", "save it as .dequantize() or .int_repr()"},
    {"_rebuild_meta_tensor", "a meta tensor: it has no values",
     "load the weights before saving (model.to_empty(device=\"cpu\"), then load_state_dict())"},
    {"nested", "a nested tensor",
     "save it as torch.nested.to_padded_tensor(tensor, 0.0), or its parts by .unbind()"},
    {"njt", "a nested tensor",
     "save it as torch.nested.to_padded_tensor(tensor, 0.0), or its parts by .unbind()"},
    {"a shard of a tensor", "a shard of a distributed tensor",
     "gather it first with .full_tensor()"},
    {"a part of a sum", "one term of a distributed sum", "gather it first with .full_tensor()"},
    {"ShardedTensor", "a shard of a distributed tensor", "gather it first with .gather()"},
    {"a distributed tensor", "a distributed tensor", "gather it first with .full_tensor()"},
    {"conjugated or negated", "a lazily conjugated or negated tensor",
     "save it as .resolve_conj().resolve_neg()"},
    {"numpy.", "a NumPy array", "save it as torch.from_numpy(array)"},
    {"_rebuild_device_tensor", "a tensor of a device of its own", "save it as .cpu()"},
    {"a tensor of torch.complex32", "of the type complex32",
     "save it as torch.view_as_real(tensor), or delete it if the model computes it"},
    {"a tensor of torch.ComplexDoubleStorage", "of the type complex128",
     "save it as torch.view_as_real(tensor), or delete it if the model computes it"},
    {"a tensor of torch.complex128", "of the type complex128",
     "save it as torch.view_as_real(tensor), or delete it if the model computes it"},
    {"a tensor of torch.ComplexHalfStorage", "of the type complex32",
     "save it as torch.view_as_real(tensor), or delete it if the model computes it"},
    {"a tensor of torch.Q", "a quantized tensor", "save it as .dequantize() or .int_repr()"},
};

}  // namespace

std::string odd_tensor_text(const PickleValue& object) {
  const std::string& name = object.text;
  for (const Row& row : kRows)
    if (name.find(row.part) != std::string::npos)
      return "is " + std::string(row.kind) + ", which is not read; " + std::string(row.call);
  const std::string shown = printable(name.substr(0, 256));
  if (name.starts_with("a tensor of "))
    return "is " + shown + ", which is not read; save its bytes as .view(torch.uint8)";
  return "is a tensor of the class " + shown +
         ", which is not read; save a plain tensor (.dequantize(), .to_dense() or "
         ".as_subclass(torch.Tensor).clone())";
}

}  // namespace gbcompress
