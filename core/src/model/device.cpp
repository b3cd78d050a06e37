#include "gbcompress/device.h"

#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <dlfcn.h>
#include <torch/version.h>

#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "model/messages.h"

namespace gbcompress {
namespace {

[[noreturn]] void refuse(const std::string& name, const std::string& why) {
  throw Error(Errc::kUsage, "`device` " + printable(name) + ": " + why);
}

/// LibTorch's part for GPUs is not linked, because loading it takes a second: it is opened on
/// demand, and must be before LibTorch first looks for it. @return why it cannot be, or ""
const std::string& load_gpu_part() {
  static const std::string why = [] {
    if (::dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) return std::string();
    const char* const text = ::dlerror();
    return std::string(text ? text : "unknown reason");
  }();
  return why;
}

void check_gpu(const std::string& name, at::Device device) {
  const std::string& why = load_gpu_part();
  if (!why.empty())
    refuse(name, "LibTorch's part for GPUs cannot be loaded (" + printable(why) +
                     "); build with a CUDA build of LibTorch and install its CUDA libraries, or "
                     "use `device` cpu");
  if (!at::globalContext().hasCUDA())
    refuse(name, "this machine has no GPU that LibTorch (" TORCH_VERSION
                 ") can use; see whether nvidia-smi lists one, or use `device` cpu");
  const int count = at::detail::getCUDAHooks().deviceCount();
  if (device.has_index() && device.index() >= count)
    refuse(name, "this machine has " + std::to_string(count) +
                     (count == 1 ? " GPU, number 0" : " GPUs, numbers from 0"));
}

/// The memory of a tensor, and what says where it is: the object itself stays.
void replace(const at::Tensor& tensor, const at::Tensor& moved) {
  tensor.unsafeGetTensorImpl()->shallow_copy_from(moved.getIntrusivePtr());
}

}  // namespace

at::Device device_named(const std::string& name) {
  try {
    const at::Device device(name);
    if (device.is_cpu()) return at::kCPU;
    if (device.is_cuda()) {
      check_gpu(name, device);
      return {device.type(), device.has_index() ? device.index() : c10::DeviceIndex{0}};
    }
    if (device.is_privateuseone() && c10::impl::hasDeviceGuardImpl(device.type()))
      return {device.type(), device.has_index() ? device.index() : c10::DeviceIndex{0}};
  } catch (const c10::Error&) {
    // no name of a device
  }
  refuse(name, "no such device; use cpu, cuda or cuda:N");
}

void move_to(Model& model, at::Device device) {
  const at::NoGradGuard no_grad;
  try {
    for (NamedParameter& p : model.tensors()) {
      if (!p.tensor.defined() || p.tensor.device() == device || !p.tied_to.empty()) continue;
      p.tensor.mutable_grad().reset();
      replace(p.tensor, p.tensor.detach().to(device));
    }
    // Ties are views of the same memory, whose first name has moved.
    for (NamedParameter& p : model.tensors()) {
      if (p.tied_to.empty() || !p.tensor.defined() || p.tensor.device() == device) continue;
      for (const NamedParameter& first : model.tensors())
        if (first.info.name == p.tied_to) replace(p.tensor, first.tensor.detach());
    }
  } catch (const c10::Error& error) {
    throw Error(Errc::kLimit, "the model cannot be moved to " + device.str() + ": " +
                                  reason(error) + "; use another `device`");
  }
}

void move_to(Data& data, at::Device device) {
  data.train.deliver_to(device);
  data.test.deliver_to(device);
}

}  // namespace gbcompress
