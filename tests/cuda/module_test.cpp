// libgbcompress_cuda.so as it was built. What needs a GPU skips without one.
#include "cuda/kernel_checks.h"
#include "cuda/load_module.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

const cuda::Module& module() { return cuda::load_module(GBC_CUDA_MODULE); }

/// Why no GPU can be used, "" where one can.
std::string no_gpu() {
  try {
    make_cuda_kernel({.module = GBC_CUDA_MODULE});
    return "";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kUsage);
    return error.what();
  }
}

TEST(CudaModule, LoadsAndTellsWhatItIs) {
  EXPECT_STREQ(module().built_with, GBC_CUDA_BUILT_WITH);
  EXPECT_GE(module().runtime, 12020);
  const CudaStatus status = cuda_status(GBC_CUDA_MODULE);
  EXPECT_EQ(status.problem, "");
  EXPECT_NE(status.module.find(GBC_CUDA_BUILT_WITH), std::string::npos);
  EXPECT_NE(status.gpus.empty(), status.no_gpu.empty()) << "either GPUs or why there are none";
}

TEST(CudaModule, SaysWhyItCannotCompute) {
  const std::string why = no_gpu();
  if (why.empty()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_NE(why.find("kernel cuda needs an NVIDIA GPU"), std::string::npos) << why;
}

class CudaGpuTest : public ::testing::TestWithParam<KernelCase> {
 protected:
  void SetUp() override {
    if (const std::string why = no_gpu(); !why.empty()) GTEST_SKIP() << why;
    kernel_ = make_cuda_kernel({.module = GBC_CUDA_MODULE});
  }
  std::unique_ptr<TileKernel> kernel_;
};

TEST_P(CudaGpuTest, MatchesTheReferenceFromHostMemory) {
  const KernelNumbers n(GetParam().spec);
  expect_reference(from_host(*kernel_, n), n);
}

TEST_P(CudaGpuTest, MatchesTheReferenceOnTheDevice) {
  const KernelNumbers n(GetParam().spec);
  expect_reference(on_device(module(), *kernel_, n), n);
}

TEST_P(CudaGpuTest, MatchesTheReferenceInLittleMemory) {
  const KernelNumbers n(GetParam().spec);
  const auto k = cuda::make_kernel(
      module(), {}, {.partial = 2 * n.shape.parameters(), .workspace = 1 << 17, .staging = 1});
  expect_reference(from_host(*k, n), n);
}

TEST_P(CudaGpuTest, SameBitsInEveryRun) {
  const KernelNumbers n(GetParam().spec);
  const KernelResults first = on_device(module(), *kernel_, n);
  for (int run = 0; run < 5; ++run) {
    const KernelResults again = on_device(module(), *kernel_, n);
    EXPECT_EQ(first.values, again.values);
    EXPECT_EQ(first.grad, again.grad);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CudaGpuTest, ::testing::ValuesIn(cuda_cases()), cuda_case_name);

}  // namespace
}  // namespace gbcompress
