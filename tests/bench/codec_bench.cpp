// Both profiles of the integer coder on a million Laplace weights: 4 bits, 1 bit, and 2 % non-zero.
#include <benchmark/benchmark.h>

#include <cmath>

#include "base/random.h"
#include "gbcompress/codec.h"

namespace gbcompress {
namespace {

constexpr IntegerGrid kGrid{2048, 512, 0};

std::vector<std::int32_t> weights(double scale) {
  const RandomStream random(1, "codec_bench");
  std::vector<std::int32_t> values;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(kGrid.size()); ++i) {
    const double size = -scale * std::log((random.bits(2 * i) + 1.0) / 4294967297.0);
    values.push_back(
        static_cast<std::int32_t>(std::lrint(random.bits(2 * i + 1) % 2 ? size : -size)));
  }
  return values;
}

std::vector<std::byte> encoded(CodecProfile profile, const std::vector<std::int32_t>& values) {
  IntegerEncoder encoder(profile);
  encoder.add(kGrid, values);
  return encoder.finish();
}

void encode(benchmark::State& state, CodecProfile profile) {
  const auto values = weights(static_cast<double>(state.range(0)) / 100);
  for (auto _ : state) benchmark::DoNotOptimize(encoded(profile, values));
  state.SetItemsProcessed(state.iterations() * kGrid.size());
}

void decode(benchmark::State& state, CodecProfile profile) {
  const auto stream = encoded(profile, weights(static_cast<double>(state.range(0)) / 100));
  std::vector<std::int32_t> values(static_cast<std::size_t>(kGrid.size()));
  for (auto _ : state) IntegerDecoder(profile, stream).read(kGrid, values);
  state.SetItemsProcessed(state.iterations() * kGrid.size());
  state.counters["bits"] =
      8.0 * static_cast<double>(stream.size()) / static_cast<double>(kGrid.size());
}

BENCHMARK_CAPTURE(encode, fast, CodecProfile::kFast)->Arg(300)->Arg(40)->Arg(13);
BENCHMARK_CAPTURE(decode, fast, CodecProfile::kFast)->Arg(300)->Arg(40)->Arg(13);
BENCHMARK_CAPTURE(encode, small, CodecProfile::kSmall)->Arg(300)->Arg(40)->Arg(13);
BENCHMARK_CAPTURE(decode, small, CodecProfile::kSmall)->Arg(300)->Arg(40)->Arg(13);

}  // namespace
}  // namespace gbcompress

BENCHMARK_MAIN();
