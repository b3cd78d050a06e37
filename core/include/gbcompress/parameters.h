#pragma once
/// The parameters and buffers of a module of whatever kind, with what layer types need to know.

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/gnet_plan.h"

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace GBC_API gbcompress {

struct NamedParameter {
  ParameterInfo info;
  at::Tensor tensor;      ///< the live leaf: what is written here is what the module computes with
  bool trainable = true;  ///< false for buffers (running means, masks, counters)
  std::string tied_to;    ///< name of an earlier entry that is the same memory, else ""
};

/// One thing that the next step of a training run depends on.
struct StateEntry {
  std::string name;  ///< "fc1.weight#theta", "fc1.bias#first_moment", "optimizer#steps"
  at::Tensor value;
};

/// Parameters, then buffers, each in the module's own order, under the names of Python's
/// state_dict(); types are named as ParameterInfo::module_type says ("Conv2d" for
/// torch::nn::Conv2dImpl and for __torch__.torch.nn.modules.conv.___torch_mangle_2.Conv2d).
/// TorchScript also keeps buffers that were registered with persistent=False: those are listed.
/// @throws Error(kUnsupported) for element types that cannot be stored
std::vector<NamedParameter> named_parameters(torch::nn::Module& module);
std::vector<NamedParameter> named_parameters(torch::jit::Module& module);

DType to_dtype(at::ScalarType type);         ///< @throws Error(kUnsupported)
at::ScalarType to_scalar_type(DType dtype);  ///< @throws Error(kUnsupported)

}  // namespace gbcompress
