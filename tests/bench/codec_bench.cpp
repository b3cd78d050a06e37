// Both profiles of the integer coder on a million Laplace weights: 4 bits, 1 bit, and 2 % non-zero.
// Floats without loss: eight million normal numbers.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstring>

#include "artifact/sections/elements.h"
#include "artifact/sections/planes.h"
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

BENCHMARK_CAPTURE(encode, small, CodecProfile::kSmall)->Arg(300)->Arg(40)->Arg(13);
BENCHMARK_CAPTURE(decode, small, CodecProfile::kSmall)->Arg(300)->Arg(40)->Arg(13);

std::vector<std::byte> floats(DType dtype) {
  std::vector<float> values(8 << 20);
  RandomStream(2, "codec_bench").fill_normal(values, 0, 0.05f);
  return elements_of(values, dtype);
}

/// One thread; the memory of the result is used again.
void pack_floats(benchmark::State& state, DType dtype) {
  const auto raw = floats(dtype);
  std::vector<std::byte> packed(raw.size());
  std::size_t size = 0;
  for (auto _ : state) {
    size = 0;
    // The choice of the form is a part of the work.
    PlanesWriter(raw, static_cast<std::size_t>(dtype_bits(dtype)) / 8)
        .write(1, [&](std::span<const std::byte> piece) {
          std::memcpy(packed.data() + size, piece.data(), piece.size());
          size += piece.size();
        });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(raw.size()));
  state.counters["share"] = static_cast<double>(size) / static_cast<double>(raw.size());
}

void unpack_floats(benchmark::State& state, DType dtype) {
  const auto raw = floats(dtype);
  const auto width = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
  const std::vector<std::byte> packed = pack_planes(raw, width);
  std::vector<std::byte> back(raw.size()), scratch(kPlaneStripe);
  for (auto _ : state) {
    const PlanesReader planes(packed, raw.size(), width, "numbers");
    for (std::size_t i = 0; i < planes.stripes(); ++i)
      planes.read(i, std::span(back).subspan(i * kPlaneStripe, planes.bytes_of(i)), scratch);
  }
  if (back != raw) state.SkipWithError("other elements came back");
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(raw.size()));
}

BENCHMARK_CAPTURE(pack_floats, bf16, DType::kBF16);
BENCHMARK_CAPTURE(unpack_floats, bf16, DType::kBF16);
BENCHMARK_CAPTURE(pack_floats, f16, DType::kF16);
BENCHMARK_CAPTURE(unpack_floats, f16, DType::kF16);
BENCHMARK_CAPTURE(pack_floats, fp32, DType::kF32);
BENCHMARK_CAPTURE(unpack_floats, fp32, DType::kF32);

}  // namespace
}  // namespace gbcompress

BENCHMARK_MAIN();
