// What lies between TileKernel and a module: memory, jobs that are kept, refusals, failures.
#include "cuda/host_module.h"
#include "cuda/kernel_checks.h"
#include "cuda/load_module.h"
#include "gbcompress/error.h"
#include "support/files.h"

namespace gbcompress {
namespace {

using cuda::host_module;

std::unique_ptr<TileKernel> kernel() { return cuda::make_kernel(host_module(), {}, {}); }

KernelNumbers small() { return KernelNumbers(kernel_case("", {23, 37}, {}, 10, 16, {12}).spec); }

TEST(CudaAdaptor, KeepsWhatLiesOnTheDeviceForTheNextCall) {
  const KernelNumbers n = small();
  const DeviceFloats theta(host_module(), n.theta), values(host_module(), n.gradient);
  const auto k = kernel();
  const auto tiles = n.tiles(values.data(), 1);
  k->forward(n.shape, theta.span(), tiles);
  const std::int64_t kept = cuda::host_module_allocations();
  k->forward(n.shape, theta.span(), tiles);
  EXPECT_EQ(cuda::host_module_allocations(), kept);
  k->forward(n.shape, theta.span(), n.tiles(values.data(), 2));
  EXPECT_GT(cuda::host_module_allocations(), kept) << "another scale is another job";
  for (int scale = 3; scale < 40; ++scale)
    k->forward(n.shape, theta.span(), n.tiles(values.data(), static_cast<float>(scale)));
  EXPECT_LT(cuda::host_module_allocations(), 20 * kept) << "jobs are kept without bound";
  EXPECT_EQ(values.values().back(), [&] {
    std::vector<float> expected(n.gradient.size());
    kernel()->forward(n.shape, n.theta, n.tiles(expected.data(), 39));
    return expected.back();
  }());
}

TEST(CudaAdaptor, ComputesAllTilesOfACallInOneLaunch) {
  const KernelNumbers n = small();
  std::vector<float> values(n.gradient.size());
  const std::int64_t before = cuda::host_module_launches();
  kernel()->forward(n.shape, n.theta, n.tiles(values.data(), 1));
  EXPECT_EQ(cuda::host_module_launches(), before + 1);
}

TEST(CudaAdaptor, DoesNothingWithoutTiles) {
  const KernelNumbers n = small();
  const std::int64_t before = cuda::host_module_launches();
  kernel()->forward(n.shape, {}, {});
  std::vector<float> values(n.gradient.size(), -7);
  auto tiles = n.tiles(values.data(), 1);
  for (TileTarget& tile : tiles) tile.rows = 0;
  kernel()->forward(n.shape, n.theta, tiles);
  EXPECT_EQ(cuda::host_module_launches(), before);
  EXPECT_EQ(values, std::vector<float>(values.size(), -7));
}

TEST(CudaAdaptor, RefusesMemoryOfBothKinds) {
  const KernelNumbers n = small();
  std::vector<float> values(n.gradient.size()), grad(n.theta.size());
  const DeviceFloats theta(host_module(), n.theta), there(host_module(), values);
  const auto k = kernel();
  const auto here_tiles = n.tiles(values.data(), 1), there_tiles = n.tiles(there.data(), 1);
  const auto sources = n.tiles<const float*>(there.data(), 1);
  const char* words = "all in host memory or all on the GPU";
  GBC_EXPECT_ERROR(k->forward(n.shape, theta.span(), here_tiles), Errc::kUsage, words);
  GBC_EXPECT_ERROR(k->forward(n.shape, n.theta, there_tiles), Errc::kUsage, words);
  GBC_EXPECT_ERROR(k->backward(n.shape, theta.span(), sources, grad), Errc::kUsage, words);
}

TEST(CudaAdaptor, RefusesTheGeneratorsItDoesNotKnow) {
  std::int64_t refused = 0;
  for (const KernelCase& c : kernel_cases()) {
    if (knows(c.spec)) continue;
    SCOPED_TRACE(c.name);
    ++refused;
    const KernelNumbers n(c.spec);
    GBC_EXPECT_ERROR(from_host(*kernel(), n), Errc::kUnsupported,
                     "the cuda kernel does not support");
  }
  EXPECT_GE(refused, 4);
}

TEST(CudaAdaptor, TellsAPlainGNetFromAStochasticOneOfTheSameShape) {
  const KernelNumbers n = small();
  const DeviceFloats theta(host_module(), n.theta), values(host_module(), n.gradient);
  const auto k = kernel();
  k->forward(n.shape, theta.span(), n.tiles(values.data(), 1));
  BankShape stochastic = n.shape;
  stochastic.generator = Generator::kStochastic;
  const auto tiles = n.tiles(values.data(), 1);
  GBC_EXPECT_ERROR(k->forward(stochastic, theta.span(), tiles), Errc::kUnsupported,
                   "the generator stochastic");
}

TEST(CudaAdaptor, RefusesGNetsThatAreTooLarge) {
  float value = 0;
  const TileTarget tile{&value, 1, 1, 1, 1, 1};
  const auto forward = [&](BankShape shape) {
    const std::vector<float> theta(static_cast<std::size_t>(shape.parameters()));
    kernel()->forward(shape, theta, std::span(&tile, 1));
  };
  const auto shape = [](std::vector<std::int64_t> hidden) {
    return bank_shape(kernel_case("", {23, 37}, {}, 10, 16, std::move(hidden)).spec);
  };
  GBC_EXPECT_ERROR(forward(shape({4080, 4080})), Errc::kLimit, "67108864 are allowed");
  GBC_EXPECT_ERROR(forward(shape({4097, 4097})), Errc::kLimit,
                   "parameters of a g-net is more than");
  BankShape nine = shape({2, 2, 2, 2, 2, 2, 2, 2});
  nine.hidden.push_back(2);
  const std::int64_t end = nine.parameters();
  nine.blocks.push_back({ParameterBlock::Kind::kWeight, end, 2});
  nine.blocks.push_back({ParameterBlock::Kind::kBias, end + 2, 1});
  GBC_EXPECT_ERROR(forward(nine), Errc::kUnsupported, "1 to 8 hidden layers, not 9");
}

TEST(CudaAdaptor, SaysWhyThereIsNoGpu) {
  cuda::set_host_devices(0, 9, "no CUDA-capable device is detected");
  GBC_EXPECT_ERROR(kernel(), Errc::kUsage, "no CUDA-capable device is detected; use kernel fused");
  cuda::set_host_devices(0, 9, nullptr);
  GBC_EXPECT_ERROR(kernel(), Errc::kUsage, "this machine has none");
  cuda::set_host_devices(1, 7, nullptr);
  GBC_EXPECT_ERROR(kernel(), Errc::kUsage, "host is sm_70");
  cuda::set_host_devices(1, 9, nullptr);
  const CudaOptions second{.device = 1};
  GBC_EXPECT_ERROR(cuda::make_kernel(host_module(), second, {}), Errc::kUsage, "no number 1");
}

/// Every call of a step fails once.
TEST(CudaAdaptor, TurnsEveryFailureIntoAnErrorAndFreesItsMemory) {
  const KernelNumbers n(kernel_case("", {290, 270}, {}, 290, 270, {3}).spec);
  const auto k = kernel();
  bool finished = false;
  std::int64_t call = 0;
  while (!finished) {
    cuda::fail_call(++call);
    ASSERT_LT(call, 100);
    try {
      from_host(*k, n);
      finished = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kFailure);
      EXPECT_NE(std::string(error.what()).find("asked for"), std::string::npos) << error.what();
    }
    EXPECT_EQ(cuda::host_module_allocations(), 0) << "after call " << call << " failed";
  }
  cuda::fail_call(0);
  EXPECT_GT(call, 10);
  expect_reference(from_host(*k, n), n);
}

TEST(CudaModule, SaysThatItIsMissing) {
  const testing::TempDir folder;
  const CudaOptions options{.module = folder / "libgbcompress_cuda.so"};
  GBC_EXPECT_ERROR(make_cuda_kernel(options), Errc::kUsage, "does not exist; build it with");
  const CudaStatus status = cuda_status(options.module);
  EXPECT_EQ(status.module, "");
  EXPECT_EQ(status.problem, "");
  EXPECT_EQ(status.no_gpu, "not looked for without the module");
}

TEST(CudaModule, RefusesAFileThatIsNone) {
  const testing::TempDir folder;
  const CudaOptions options{.module = folder / "libgbcompress_cuda.so"};
  testing::put_file(options.module, "no library");
  GBC_EXPECT_ERROR(make_cuda_kernel(options), Errc::kUsage, "cannot be linked");
  EXPECT_NE(cuda_status(options.module).problem.find("cannot be linked"), std::string::npos);
  GBC_EXPECT_ERROR(cuda::load_module(GBC_OTHER_LIBRARY), Errc::kUsage, "has no entry function");
  GBC_EXPECT_ERROR(cuda::load_module(GBC_OLD_MODULE), Errc::kUsage, "is not of version");
}

}  // namespace
}  // namespace gbcompress
