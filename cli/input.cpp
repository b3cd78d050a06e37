#include "input.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/detail/CUDAHooksInterface.h>

#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "model_options.h"
#include "model_size.h"

namespace gbcompress::cli {

namespace {

/// Parameters below which one thread computes unless the user sets more: it is as fast alone
/// (0.4 s on the digits either way), and on a busy machine two that wait for each other took 20 s.
constexpr std::int64_t kSmallModel = 200'000;

}  // namespace

void set_threads(std::int64_t wanted, const Model& model) {
  std::int64_t parameters = 0;
  for (const NamedParameter& p : model.tensors())
    if (p.trainable) parameters += p.info.elements();
  if (wanted == 0 && parameters < kSmallModel) wanted = 1;
  if (wanted > 0) at::set_num_threads(static_cast<int>(wanted));
}

at::Device device_of_rank(const Settings& settings, const Launch& launch) {
  const at::Device device = device_named(settings.device);
  if (!device.is_cuda() || launch.world == 1) return device;
  if (!at::Device(settings.device).has_index())
    return {at::kCUDA, static_cast<c10::DeviceIndex>(
                           pick_gpu(launch, at::detail::getCUDAHooks().deviceCount()))};
  if (launch.local_world == 1) return device;
  throw Error(Errc::kUsage, "`device` " + printable(settings.device) +
                                " names one GPU for several ranks; use cuda: each rank takes the "
                                "GPU of its place on its machine");
}

void use_device(const Settings& settings, const Launch& launch, Model& model, Model* teacher,
                Data* data) {
  if (!data) return;
  const at::Device device = device_of_rank(settings, launch);
  if (device.is_cpu()) return;
  move_to(model, device);
  if (teacher) move_to(*teacher, device);
  move_to(*data, device);
}

Input open_input(const Arguments& arguments, const PluginHost& host, std::uint64_t seed) {
  const std::string arch = arguments.text("arch");
  if (!arguments.has("from-scratch")) {
    const std::filesystem::path file = arguments.words()[0];
    const OpenOptions options = model_options(arguments);
    return {open_model(file, arch, host.registry(), options), model_bytes(file, options)};
  }
  if (!arguments.words().empty())
    throw Error(Errc::kUsage, "--from-scratch contradicts the model file " +
                                  printable(arguments.words()[0]) + "; give one of both");
  if (arch.empty() || !arguments.has("data"))
    throw Error(Errc::kUsage, "--from-scratch needs --arch, and --data to train on");
  at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
  generator.set_current_seed(seed);
  Input input{build_model(arch, host.registry()), 0};
  for (const NamedParameter& p : input.model->tensors())
    if (p.tied_to.empty()) input.bytes += static_cast<std::int64_t>(p.tensor.nbytes());
  return input;
}

}  // namespace gbcompress::cli
