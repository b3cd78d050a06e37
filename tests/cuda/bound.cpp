// How close the cuda kernels come to what a GPU allows. Prints one line a case; exits with 77 where
// there is no GPU, and with 1 where forward with one hidden layer falls below half of its bound.
//
// The bounds, in weights a second (docs/explanation/adr/0003-cuda-module.md):
//   memory  bandwidth / 4 bytes: forward writes a weight once, backward reads its gradient once
//   flops   peak / flops of one weight, where a multiply-add counts as two: max and multiply-add
//   make
//           3 a hidden unit forward; comparison and two multiply-adds make 5 backward
// The bound is the smaller one. Bandwidth is a copy inside the device, measured in the same run;
// peak is multiprocessors x 128 multiply-adds x clock.
#include <algorithm>
#include <chrono>
#include <cstdio>

#include "cuda/device.h"
#include "cuda/load_module.h"
#include "cuda/make_kernel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using cuda::Device;
using cuda::DeviceArray;

/// Median seconds of `work`, which queues; after one run to warm up.
template <typename Work>
double seconds(const Device& device, const Work& work) {
  std::vector<double> times;
  for (int run = 0; run < 8; ++run) {
    device.finish();
    const auto begin = std::chrono::steady_clock::now();
    work();
    device.finish();
    if (run > 0)
      times.push_back(
          std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

/// Bytes a second that a copy inside the device reads and writes.
double copy_bandwidth(const Device& device) {
  constexpr std::int64_t kFloats = std::int64_t{1} << 28;
  const DeviceArray<float> from(device, kFloats), to(device, kFloats);
  const auto bytes = static_cast<double>(kFloats * sizeof(float));
  return 2 * bytes / seconds(device, [&] { device.copy(to.data(), from.data(), kFloats * 4); });
}

struct Case {
  const char* name;
  std::int64_t rows, cols, tile_rows, tile_cols, kernel;
  std::vector<std::int64_t> hidden;
};

/// Flops of one weight: of the first layer, and of the products after it.
double flops(const Case& c, bool backward) {
  double products = 0;
  for (std::size_t l = 1; l <= c.hidden.size(); ++l)
    products +=
        2.0 * static_cast<double>(c.hidden[l - 1] * (l < c.hidden.size() ? c.hidden[l] : 1));
  const auto first = static_cast<double>(c.hidden[0]);
  if (c.hidden.size() == 1) return (backward ? 5 : 3) * first;
  // Backward computes the activations again and has two products for each of forward's.
  return backward ? 4 * first + 3 * products : 2 * first + products;
}

BankShape shape_of(const Case& c) {
  GNetSpec spec;
  spec.type_id = "bound";
  spec.shape = {c.rows, c.cols};
  if (c.kernel > 1) {
    spec.shape.push_back(c.kernel);
    spec.kernel_codes = {Encoding::kOneHot};
  }
  spec.tile_rows = c.tile_rows;
  spec.tile_cols = c.tile_cols;
  spec.hidden = c.hidden;
  return bank_shape(spec);
}

template <typename Pointer>
std::vector<TileMemory<Pointer>> tiles_of(const Case& c, Pointer data) {
  std::vector<TileMemory<Pointer>> tiles;
  for (std::int64_t i = 0; i < c.rows; i += c.tile_rows)
    for (std::int64_t j = 0; j < c.cols; j += c.tile_cols)
      tiles.push_back({data + (i * c.cols + j) * c.kernel, c.cols * c.kernel, c.kernel,
                       std::min(c.tile_rows, c.rows - i), std::min(c.tile_cols, c.cols - j), 1});
  return tiles;
}

/// Prints one direction. @return  the fraction of its bound
double report(const char* direction, double weights, double time, double memory, double flop) {
  const double rate = weights / time, bound = std::min(memory, flop);
  std::printf("  %-8s %8.1f Gw/s, %3.0f %% of what %s allows (%.1f)\n", direction, rate / 1e9,
              100 * rate / bound, flop < memory ? "arithmetic" : "memory", bound / 1e9);
  return rate / bound;
}

/// @return  forward's fraction of its bound
double measure(const Device& device, const Case& c, double bandwidth, double peak) {
  const auto kernel = make_cuda_kernel({.module = GBC_CUDA_MODULE});
  const BankShape shape = shape_of(c);
  const std::int64_t weights = c.rows * c.cols * c.kernel;
  const DeviceArray<float> data(device, weights);
  const auto targets = tiles_of<float*>(c, data.data());
  const auto sources = tiles_of<const float*>(c, data.data());
  const std::size_t count = targets.size() * static_cast<std::size_t>(shape.parameters());
  std::vector<float> numbers(count);
  for (std::size_t n = 0; n < count; ++n)
    numbers[n] = static_cast<float>(n * 2654435761u % 1000) / 1000 - 0.5f;
  const DeviceArray<float> theta(device, std::span<const float>(numbers));
  const DeviceArray<float> grad(device, std::span<const float>(numbers));
  const double forward = seconds(device, [&] {
    kernel->forward(shape, {theta.data(), count}, targets);
  });
  const double backward = seconds(device, [&] {
    kernel->backward(shape, {theta.data(), count}, sources, {grad.data(), count});
  });
  std::printf("%s\n", c.name);
  const auto all = static_cast<double>(weights);
  const double reached = report("forward", all, forward, bandwidth / 4, peak / flops(c, false));
  report("backward", all, backward, bandwidth / 4, peak / flops(c, true));
  return reached;
}

int run() {
  std::unique_ptr<Device> device;
  const cuda::Module& module = cuda::load_module(GBC_CUDA_MODULE);
  cuda::DeviceFacts facts;
  try {
    device = std::make_unique<Device>(module, 0, nullptr);
  } catch (const Error& error) {
    std::printf("skipped: %s\n", error.what());
    return 77;
  }
  if (const char* error = module.facts(0, &facts)) throw Error(Errc::kFailure, error);
  const Device::Use use(*device);
  const double bandwidth = copy_bandwidth(*device);
  const double peak = facts.multiprocessors * 256.0 * facts.kilohertz * 1e3;
  std::printf("%s: copies %.0f GB/s (measured), peak %.1f Tflop/s (%d x 256 at %.2f GHz)\n",
              facts.name, bandwidth / 1e9, peak / 1e12, facts.multiprocessors,
              facts.kilohertz / 1e6);
  const std::vector<Case> cases = {
      {"100x100 tiles, 32", 20000, 20000, 100, 100, 1, {32}},
      {"100x100 tiles, 8", 20000, 20000, 100, 100, 1, {8}},
      {"llama block, 32", 11008, 4096, 100, 100, 1, {32}},
      {"3x3 kernels, 20", 4096, 4096, 34, 34, 9, {20}},
      {"784x800, 20-30-10", 784 * 16, 800 * 16, 784, 800, 1, {20, 30, 10}},
  };
  bool good = true;
  for (const Case& c : cases) {
    const double reached = measure(*device, c, bandwidth, peak);
    if (c.hidden.size() == 1 && reached < 0.5) good = false;
  }
  return good ? 0 : 1;
}

}  // namespace
}  // namespace gbcompress

int main() {
  try {
    return gbcompress::run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
