#pragma once
/// What every cuda kernel must do, on the host's module and on a GPU's.

#include "cuda/cuda_kernel.h"
#include "support/kernel_cases.h"

namespace gbcompress {

/// Whether the cuda kernel knows a specification.
inline bool knows(const GNetSpec& spec) {
  return spec.generator == Generator::kGNet && !bank_shape(spec).has_latents();
}

/// The shapes of all kernels, as far as it knows them, and those whose pieces, hidden blocks and
/// workspaces are many.
inline std::vector<KernelCase> cuda_cases() {
  std::vector<KernelCase> cases = kernel_cases();
  std::erase_if(cases, [](const KernelCase& c) { return !knows(c.spec); });
  const MatrixView plain, transposed{.row_dim = 1, .col_dim = 0};
  cases.push_back(kernel_case("pieces", {290, 270}, plain, 290, 270, {11}));
  cases.push_back(kernel_case("pieces_cropped", {200, 310}, plain, 150, 140, {5}));
  cases.push_back(kernel_case("pieces_transposed", {150, 260}, transposed, 150, 140, {33}));
  cases.push_back(kernel_case("pieces_conv", {20, 60, 3, 3}, plain, 20, 40, {24}));
  cases.push_back(kernel_case("wide_one_hot", {140, 15}, plain, 140, 15, {40}, Encoding::kOneHot));
  cases.push_back(kernel_case("deep_pieces", {20, 270}, plain, 20, 270, {20, 30, 10}));
  cases.push_back(kernel_case("deep_wide", {9, 20}, plain, 9, 20, {70, 150}));
  cases.push_back(kernel_case("deep_narrow", {6, 40}, transposed, 20, 6, {1, 1, 1}));
  return cases;
}

inline std::string cuda_case_name(const ::testing::TestParamInfo<KernelCase>& info) {
  return info.param.name;
}

/// Numbers in a module's device memory.
class DeviceFloats {
 public:
  DeviceFloats(const cuda::Module& module, const std::vector<float>& values)
      : module_(module), size_(values.size()) {
    void* memory = nullptr;
    EXPECT_EQ(module_.allocate(&memory, bytes(), nullptr), nullptr);
    data_ = static_cast<float*>(memory);
    EXPECT_EQ(module_.copy(data_, values.data(), bytes(), nullptr), nullptr);
  }
  ~DeviceFloats() { module_.release(data_, nullptr); }
  DeviceFloats(const DeviceFloats&) = delete;
  DeviceFloats& operator=(const DeviceFloats&) = delete;
  float* data() const { return data_; }
  std::span<float> span() const { return {data_, size_}; }
  std::vector<float> values() const {
    std::vector<float> result(size_);
    EXPECT_EQ(module_.copy(result.data(), data_, bytes(), nullptr), nullptr);
    EXPECT_EQ(module_.finish(nullptr), nullptr);
    return result;
  }

 private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(size_ * sizeof(float)); }
  const cuda::Module& module_;
  std::size_t size_;
  float* data_ = nullptr;
};

/// A case's weights, and 0.25 + its gradients.
struct KernelResults {
  std::vector<float> values, grad;
  explicit KernelResults(const KernelNumbers& n)
      : values(n.gradient.size(), -7), grad(n.theta.size(), 0.25f) {}
};

/// Numbers that stay in host memory.
inline KernelResults from_host(const TileKernel& kernel, const KernelNumbers& n) {
  KernelResults results(n);
  kernel.forward(n.shape, n.theta, n.tiles(results.values.data(), 0.37f));
  kernel.backward(n.shape, n.theta, n.tiles(n.gradient.data(), 1.7f), results.grad);
  return results;
}

/// Numbers that lie on the device.
inline KernelResults on_device(const cuda::Module& module, const TileKernel& kernel,
                               const KernelNumbers& n) {
  KernelResults results(n);
  const DeviceFloats theta(module, n.theta), gradient(module, n.gradient);
  const DeviceFloats values(module, results.values), grad(module, results.grad);
  kernel.forward(n.shape, theta.span(), n.tiles(values.data(), 0.37f));
  kernel.backward(n.shape, theta.span(), n.tiles<const float*>(gradient.data(), 1.7f), grad.span());
  results.values = values.values();
  results.grad = grad.values();
  return results;
}

inline void expect_reference(const KernelResults& got, const KernelNumbers& n) {
  const KernelResults expected = from_host(*make_reference_kernel(), n);
  EXPECT_LT(relative_difference(got.values, expected.values), 3e-6);
  EXPECT_LT(relative_difference(got.grad, expected.grad), 2e-5);
}

}  // namespace gbcompress
