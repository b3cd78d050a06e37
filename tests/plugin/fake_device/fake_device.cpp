/// A device of LibTorch in memory that the host may not touch: every operation copies its tensors
/// to the host and back, and what reads or writes them otherwise ends the process with SIGSEGV.
/// GBC_FAKE_DEVICE_LOG=FILE: at the end, how many copies there were each way outside of operations,
/// and their bytes. The architecture "host-access" reads its input on the host on purpose.
#include <ATen/ATen.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <gbcompress/plugin.h>
#include <gbcompress/registry.h>
#include <sys/mman.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace {

constexpr auto kType = c10::DeviceType::PrivateUse1;
constexpr auto kKey = c10::DispatchKey::PrivateUse1;

struct Transfers {
  std::atomic<std::int64_t> to_device{0}, to_host{0}, bytes_to_device{0}, bytes_to_host{0};
  ~Transfers() {
    const char* path = std::getenv("GBC_FAKE_DEVICE_LOG");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(
        file, "to_device %lld %lld\nto_host %lld %lld\n", static_cast<long long>(to_device.load()),
        static_cast<long long>(bytes_to_device.load()), static_cast<long long>(to_host.load()),
        static_cast<long long>(bytes_to_host.load()));
    std::fclose(file);
  }
};
Transfers& transfers() {
  static Transfers one;
  return one;
}
/// An operation copies its own tensors.
thread_local int operations = 0;
struct Operation {
  Operation() { ++operations; }
  ~Operation() { --operations; }
};

std::size_t pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + 4095) & ~std::size_t{4095};
}

struct Block {
  void* data;
  std::size_t bytes;
};

class Memory final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    void* data = ::mmap(nullptr, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TORCH_CHECK(data != MAP_FAILED, "the fake device is out of memory");
    return {data, new Block{data, pages(bytes)}, &release, c10::Device(kType, 0)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "the fake device copies by tensors");
  }
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    ::munmap(block->data, block->bytes);
    delete block;
  }
};
Memory& memory() {
  static Memory one;
  return one;
}

/// The memory of a tensor is the host's too, as long as this lives.
class Opened {
 public:
  explicit Opened(const at::Tensor& tensor) {
    if (tensor.device().type() != kType) return;
    lock_ = std::unique_lock(mutex());
    block_ = static_cast<Block*>(tensor.storage().data_ptr().get_context());
    protect(PROT_READ | PROT_WRITE);
  }
  ~Opened() { protect(PROT_NONE); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex one;
    return one;
  }
  void protect(int access) const {
    if (block_) ::mprotect(block_->data, block_->bytes, access);
  }
  std::unique_lock<std::recursive_mutex> lock_;
  Block* block_ = nullptr;
};

at::Tensor as_host(const at::Tensor& tensor) {
  if (tensor.device().type() != kType) return tensor;
  return at::from_blob(tensor.data_ptr(), tensor.sizes(), tensor.strides(),
                       at::TensorOptions(tensor.scalar_type()));
}

void move_values(const at::Tensor& from, const at::Tensor& to) {
  const at::NoGradGuard no_grad;
  if (operations == 0) {
    const bool down = to.device().is_cpu(), up = from.device().is_cpu();
    if (down)
      ++transfers().to_host, transfers().bytes_to_host += static_cast<std::int64_t>(to.nbytes());
    if (up)
      ++transfers().to_device,
          transfers().bytes_to_device += static_cast<std::int64_t>(to.nbytes());
  }
  // One block may hold both.
  const at::Tensor middle = [&] {
    const Opened open(from);
    return as_host(from).clone();
  }();
  const Opened open(to);
  as_host(to).copy_(middle);
}

at::Tensor move_from(const at::Tensor& from, const at::Tensor& to, bool) {
  move_values(from, to);
  return to;
}

at::Tensor make_strided(c10::IntArrayRef size, c10::IntArrayRef stride,
                        std::optional<at::ScalarType> type, std::optional<at::Layout>,
                        std::optional<at::Device>, std::optional<bool>) {
  const at::Tensor shape = at::empty_strided(
      size, stride, at::TensorOptions(type.value_or(at::kFloat)).device(at::kMeta));
  std::size_t numbers = size.empty() ? 1 : 0;
  if (shape.numel() > 0) {
    numbers = 1;
    for (std::size_t i = 0; i < size.size(); ++i)
      numbers += static_cast<std::size_t>((size[i] - 1) * stride[i]);
  }
  const std::size_t bytes = numbers * shape.element_size();
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, memory().allocate(bytes), &memory(),
                       true);
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(kKey), shape.dtype());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return result;
}

at::Tensor make_empty(c10::IntArrayRef size, std::optional<at::ScalarType> type,
                      std::optional<at::Layout> layout, std::optional<at::Device> device,
                      std::optional<bool> pinned, std::optional<at::MemoryFormat> format) {
  const at::Tensor shape =
      at::empty(size, at::TensorOptions(type.value_or(at::kFloat)).device(at::kMeta),
                format.value_or(at::MemoryFormat::Contiguous));
  return make_strided(size, shape.strides(), type, layout, device, pinned);
}

at::Tensor make_view(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride,
                     std::optional<std::int64_t> offset) {
  at::Tensor result = at::detail::make_tensor<c10::TensorImpl>(
      c10::TensorImpl::VIEW, c10::Storage(self.storage()), self.key_set(), self.dtype());
  auto* impl = result.unsafeGetTensorImpl();
  impl->set_storage_offset(offset.value_or(self.storage_offset()));
  impl->set_sizes_and_strides(size, stride);
  return result;
}

at::Tensor reshaped(const at::Tensor& self, c10::IntArrayRef size) {
  const at::Tensor shape =
      at::empty_strided(self.sizes(), self.strides(), at::TensorOptions(at::kMeta)).view(size);
  return make_view(self, shape.sizes(), shape.strides(), self.storage_offset());
}

at::Tensor make_alias(const at::Tensor& self, c10::IntArrayRef size, c10::IntArrayRef stride) {
  return make_view(self, size, stride, self.storage_offset());
}

const at::Tensor& make_size(const at::Tensor& self, c10::IntArrayRef size,
                            std::optional<at::MemoryFormat>) {
  if (self.sizes() == size) return self;
  const at::Tensor larger = at::empty(size, self.options());
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(larger.storage());
  self.unsafeGetTensorImpl()->set_storage_offset(0);
  self.unsafeGetTensorImpl()->set_sizes_contiguous(size);
  return self;
}

at::Tensor& take_storage(at::Tensor& self, c10::Storage source, std::int64_t offset,
                         c10::IntArrayRef size, c10::IntArrayRef stride) {
  self.unsafeGetTensorImpl()->set_storage_keep_dtype(std::move(source));
  self.unsafeGetTensorImpl()->set_storage_offset(offset);
  self.unsafeGetTensorImpl()->set_sizes_and_strides(size, stride);
  return self;
}

at::Tensor resize_and_move(const at::Tensor& from, const at::Tensor& to) {
  make_size(to, from.sizes(), {});
  move_values(from, to);
  return to;
}

/// A single number is read all the time; what else is read is counted.
at::Scalar read_scalar(const at::Tensor& self) {
  const Operation one;
  return self.to(at::kCPU).item();
}

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const Operation one;
  at::native::cpu_fallback(op, stack);
}

at::Tensor host(const std::optional<at::Tensor>& tensor) {
  return tensor && tensor->defined() ? tensor->to(at::kCPU) : at::Tensor();
}
at::Tensor back(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.to(c10::Device(kType, 0)) : tensor;
}

at::Tensor convolve(const at::Tensor& input, const at::Tensor& weight,
                    const std::optional<at::Tensor>& bias, c10::IntArrayRef stride,
                    c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
                    c10::IntArrayRef output_padding, std::int64_t groups) {
  const Operation one;
  return back(at::convolution(host(input), host(weight), host(bias), stride, padding, dilation,
                              transposed, output_padding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_backward(
    const at::Tensor& gradient, const at::Tensor& input, const at::Tensor& weight,
    c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation, bool transposed,
    c10::IntArrayRef output_padding, std::int64_t groups, std::array<bool, 3> mask) {
  const Operation one;
  const std::int64_t biases = transposed ? weight.size(1) * groups : weight.size(0);
  const auto [a, b, c] = at::convolution_backward(
      host(gradient), host(input), host(weight), at::OptionalIntArrayRef(c10::IntArrayRef(biases)),
      stride, padding, dilation, transposed, output_padding, groups, mask);
  return {back(a), back(b), back(c)};
}

/// The processor has no kernel of this name: LibTorch takes it for devices alone.
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(
    const at::Tensor& of_input, const at::Tensor& of_hidden, const at::Tensor& before,
    const std::optional<at::Tensor>& input_bias, const std::optional<at::Tensor>& hidden_bias) {
  const Operation one;
  at::Tensor gates = host(of_input) + host(of_hidden);
  for (const auto* bias : {&input_bias, &hidden_bias})
    if (host(*bias).defined()) gates = gates + host(*bias);
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = parts[0].sigmoid(), forget = parts[1].sigmoid(), cell = parts[2].tanh(),
                   out = parts[3].sigmoid();
  const at::Tensor now = forget * host(before) + in * cell;
  return {back(out * now.tanh()), back(now), back(at::cat({in, forget, cell, out}, 1))};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell_backward(
    const std::optional<at::Tensor>& of_output, const std::optional<at::Tensor>& of_cell,
    const at::Tensor& before, const at::Tensor& now, const at::Tensor& workspace, bool biased) {
  const Operation one;
  const auto parts = host(workspace).chunk(4, 1);
  const at::Tensor &in = parts[0], &forget = parts[1], &cell = parts[2], &out = parts[3];
  const at::Tensor squashed = host(now).tanh();
  const auto or_zero = [&](const std::optional<at::Tensor>& gradient) {
    return host(gradient).defined() ? host(gradient) : at::zeros_like(squashed);
  };
  const at::Tensor dy = or_zero(of_output);
  const at::Tensor dc = or_zero(of_cell) + dy * out * (1 - squashed.square());
  const at::Tensor gates =
      at::cat({dc * cell * in * (1 - in), dc * host(before) * forget * (1 - forget),
               dc * in * (1 - cell.square()), dy * squashed * out * (1 - out)},
              1);
  return {back(gates), back(dc * forget), biased ? back(gates.sum(0)) : at::Tensor()};
}

struct Guard final : c10::impl::NoOpDeviceGuardImpl<kType> {
  c10::Device exchangeDevice(c10::Device) const override { return {kType, 0}; }
  c10::Device getDevice() const override { return {kType, 0}; }
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, c10::Device(kType, 0)); }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
};

/// Linear, behind a look at the input's memory.
gbcompress::BuiltModel host_access(const gbcompress::ModelRequest&) {
  struct Net : torch::nn::Module {
    torch::nn::Linear layer{register_module("0", torch::nn::Linear(64, 10))};
  };
  auto net = std::make_shared<Net>();
  return {net,
          [net](const at::Tensor& x) {
            const auto* first = static_cast<const volatile float*>(x.const_data_ptr());
            return net->layer->forward(x + 0 * first[0]);
          },
          {64},
          {}};
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&fallback>());
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &make_empty);
  m.impl("empty_strided", &make_strided);
  m.impl("as_strided", &make_view);
  m.impl("view", &reshaped);
  m.impl("_reshape_alias", &make_alias);
  m.impl("resize_", &make_size);
  m.impl("set_.source_Storage_storage_offset", &take_storage);
  m.impl("_copy_from", &move_from);
  m.impl("_copy_from_and_resize", &resize_and_move);
  m.impl("_local_scalar_dense", &read_scalar);
  m.impl("_thnn_fused_lstm_cell", &lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", &lstm_cell_backward);
  m.impl("convolution_overrideable", &convolve);
  m.impl("convolution_backward_overrideable", &convolve_backward);
}

}  // namespace

GBC_PLUGIN("fake_device", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  static Guard guard;
  static Hooks hooks;
  static c10::impl::DeviceGuardImplRegistrar registered(kType, &guard);
  c10::SetAllocator(kType, &memory());
  if (!at::isPrivateUse1HooksRegistered()) at::RegisterPrivateUse1HooksInterface(&hooks);
  if (!c10::is_privateuse1_backend_registered()) c10::register_privateuse1_backend("fake");
  transfers();
  registrar.register_model("host-access", host_access);
})
