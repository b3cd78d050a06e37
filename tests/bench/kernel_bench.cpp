// One thread, one bank of 2^20 weights in memory that stays in the caches.
//   gbc_bench [--isa=AVX2] [Google Benchmark's options]
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>

#include <cstring>
#include <iostream>

#include "gbcompress/bench.h"
#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "gnet/fused.h"
#include "gnet/tile_kernel.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kWeights = std::int64_t{1} << 20;

/// Tiles of one shape with random g-nets.
struct Bank {
  BankShape shape;
  at::Tensor theta, grad, weights;
  std::vector<TileTarget> targets;
  std::vector<TileSource> sources;

  Bank(std::vector<std::int64_t> tile, std::vector<std::int64_t> hidden) {
    GNetSpec spec;
    spec.shape = tile;
    spec.tile_rows = tile[0];
    spec.tile_cols = tile[1];
    spec.kernel_codes.assign(tile.size() - 2, Encoding::kOneHot);
    spec.hidden = std::move(hidden);
    shape = bank_shape(spec);
    const std::int64_t positions = shape.positions(), tiles = (kWeights - 1) / positions + 1;
    theta = at::empty({tiles, shape.parameters()}, at::kFloat).uniform_(-0.1, 0.1);
    grad = at::zeros_like(theta);
    weights = at::empty({tiles, positions}, at::kFloat).uniform_(-1, 1);
    for (std::int64_t t = 0; t < tiles; ++t) {
      float* data = weights.data_ptr<float>() + t * positions;
      const std::int64_t row = shape.tile_cols * shape.kernel;
      targets.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1});
      sources.push_back({data, row, shape.kernel, shape.tile_rows, shape.tile_cols, 1e-6f});
    }
  }
  std::span<float> span(const at::Tensor& t) const {
    return {t.data_ptr<float>(), static_cast<std::size_t>(t.numel())};
  }
};

void forward(benchmark::State& state, const TileKernel& kernel, const Bank& bank) {
  for (auto _ : state) kernel.forward(bank.shape, bank.span(bank.theta), bank.targets);
  state.SetItemsProcessed(state.iterations() * bank.weights.numel());
}

void backward(benchmark::State& state, const TileKernel& kernel, const Bank& bank) {
  for (auto _ : state)
    kernel.backward(bank.shape, bank.span(bank.theta), bank.sources, bank.span(bank.grad));
  state.SetItemsProcessed(state.iterations() * bank.weights.numel());
}

void adamw(benchmark::State& state) {
  const at::Tensor parameters = at::empty({state.range(0)}, at::kFloat).uniform_(-1, 1);
  const at::Tensor gradients = at::full_like(parameters, 1e-3);
  AdamW optimizer({parameters}, {});
  for (auto _ : state) optimizer.step({gradients});
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void add_all() {
  struct Shape {
    const char* name;
    std::vector<std::int64_t> tile, hidden;
  };
  const std::vector<Shape> shapes = {
      {"100x100/8", {100, 100}, {8}},         {"100x100/32", {100, 100}, {32}},
      {"100x100/128", {100, 100}, {128}},     {"16x16/32", {16, 16}, {32}},
      {"34x34x3x3/32", {34, 34, 3, 3}, {32}}, {"784x800/30-10", {784, 800}, {30, 10}}};
  static const auto fused = make_fused_kernel(), reference = make_reference_kernel();
  for (const Shape& s : shapes) {
    const auto bank = std::make_shared<Bank>(s.tile, s.hidden);
    for (const TileKernel* kernel : {fused.get(), reference.get()}) {
      const std::string name = std::string(kernel->name()) + "/" + s.name;
      benchmark::RegisterBenchmark(("forward/" + name).c_str(), [=](benchmark::State& state) {
        forward(state, *kernel, *bank);
      })->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("backward/" + name).c_str(), [=](benchmark::State& state) {
        backward(state, *kernel, *bank);
      })->Unit(benchmark::kMillisecond);
    }
  }
  benchmark::RegisterBenchmark("adamw", adamw)->Arg(1 << 12)->Arg(1 << 18)->Arg(1 << 23);
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  at::set_num_threads(1);
  benchmark::Initialize(&argc, argv);
  try {
    if (argc > 1 && std::strncmp(argv[1], "--isa=", 6) == 0) {
      gbcompress::restrict_isa(argv[1] + 6);
    } else if (benchmark::ReportUnrecognizedArguments(argc, argv)) {
      return 2;
    }
    benchmark::AddCustomContext("isa", gbcompress::fused_target_name());
    gbcompress::add_all();
    benchmark::RunSpecifiedBenchmarks();
  } catch (const gbcompress::Error& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
  return 0;
}
