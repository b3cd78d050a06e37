// Profile `lanes` on 45 MB of fp32 weights: 1024 x 11008, normal with scales of rows and columns
// and eight outlier columns, dependent, 3 bits. Numbers are written as fp32, bf16 or fp16. One
// thread.
#include <benchmark/benchmark.h>
#include <hwy/targets.h>

#include <cmath>
#include <string>

#include "base/random.h"
#include "codec/lanes/decoder.h"
#include "codec/lanes/stream.h"
#include "gbcompress/codec.h"

namespace gbcompress {
namespace {

namespace lanes = codec::lanes;

constexpr float kStep = 0.55f;  // of a deviation: about 3 bits

IntegerGrid grid_of(bool dependent) {
  IntegerGrid grid{1024, 11008, 0, dependent};
  grid.lanes = dependent;
  return grid;
}

const std::vector<float>& weights() {
  static const std::vector<float> values = [] {
    const IntegerGrid grid = grid_of(false);
    std::vector<float> made(static_cast<std::size_t>(grid.size())), rows(1024), cols(11008);
    RandomStream(1, "lanes_bench").fill_normal(made, 0, 1);
    RandomStream(2, "lanes_bench").fill_normal(rows, 0, 0.25f);
    RandomStream(3, "lanes_bench").fill_normal(cols, 0, 0.3f);
    for (std::size_t i = 0; i < made.size(); ++i) {
      const std::size_t c = i % cols.size();
      made[i] *= std::exp(rows[i / cols.size()] + cols[c]) * (c % 1376 == 5 ? 10.0f : 1.0f);
    }
    return made;
  }();
  return values;
}

/// Integers as the trellis, or rounding, chooses them.
const std::vector<std::int32_t>& integers(bool dependent) {
  static std::vector<std::int32_t> made[2];
  std::vector<std::int32_t>& chosen = made[dependent];
  if (!chosen.empty()) return chosen;
  chosen.resize(weights().size());
  const IntegerGrid grid = grid_of(dependent);
  if (dependent) {
    const Trellis trellis(grid, weights());
    for (std::int64_t part = 0; part < trellis.parts(); ++part) trellis.choose(part, kStep, chosen);
  } else {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      chosen[i] = static_cast<std::int32_t>(std::lrint(weights()[i] / kStep));
  }
  return chosen;
}

const std::vector<std::byte>& stream(bool dependent) {
  static std::vector<std::byte> made[2];
  std::vector<std::byte>& bytes = made[dependent];
  if (bytes.empty()) {
    IntegerEncoder encoder(CodecProfile::kLanes);
    encoder.add(grid_of(dependent), integers(dependent));
    bytes = encoder.finish();
  }
  return bytes;
}

void count(benchmark::State& state, bool dependent) {
  const auto n = static_cast<std::int64_t>(weights().size());
  state.SetItemsProcessed(state.iterations() * n);
  state.counters["bits"] =
      8.0 * static_cast<double>(stream(dependent).size()) / static_cast<double>(n);
}

/// @param target  bits of hwy's: the best of them that was compiled
template <typename Out>
void decode(benchmark::State& state, bool dependent, std::int64_t target) {
  hwy::SetSupportedTargetsForTest(target);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const auto& bytes = stream(dependent);
  const IntegerGrid form = grid_of(dependent);
  std::vector<Out> out(weights().size());
  for (auto _ : state) {
    const lanes::StreamParts parts = lanes::stream_parts(bytes);
    lanes::HeadReader reader(parts.head);
    const lanes::Entries entries(reader.sets());
    const lanes::Shape shape(form);
    const lanes::GridHead head = reader.read(shape, dependent);
    lanes::GridDecoder decoder(form, head, entries);
    decoder.set_scale(kStep / (dependent ? 2 : 1));
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      const auto stripe = parts.stripes[static_cast<std::size_t>(block)];
      lanes::StripeReader stripes(stripe, static_cast<std::size_t>(parts.end - stripe.data()));
      if (!decoder.decode(block, stripes.cursor(), out.data() + shape.first(block)))
        return state.SkipWithError("refused");
      stripes.finish();
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  count(state, dependent);
}

void encode(benchmark::State& state, bool dependent) {
  const auto& values = integers(dependent);
  for (auto _ : state) {
    IntegerEncoder encoder(CodecProfile::kLanes);
    encoder.add(grid_of(dependent), values);
    benchmark::DoNotOptimize(encoder.finish());
  }
  count(state, dependent);
}

/// Classes, tables and stripes of nearest integers, without a copy of them; four times the rows.
void stripes(benchmark::State& state, int threads) {
  const auto& few = integers(false);
  std::vector<std::int32_t> values;
  for (int i = 0; i < 4; ++i) values.insert(values.end(), few.begin(), few.end());
  const IntegerGrid grid{4096, 11008, 0, false};
  for (auto _ : state) {
    lanes::Survey survey;
    survey.add(grid, values, threads);
    benchmark::DoNotOptimize(survey.finish());
    lanes::StripeWriter writer(survey, threads);
    const auto drop = [](const std::vector<std::byte>& stripe) {
      benchmark::DoNotOptimize(stripe.data());
    };
    writer.add(grid, values, drop);
    writer.flush(drop);
  }
  state.SetItemsProcessed(state.iterations() * grid.size());
}

/// The search for the integers of dependent grids.
void trellis(benchmark::State& state) {
  const IntegerGrid grid = grid_of(true);
  std::vector<std::int32_t> chosen(weights().size());
  for (auto _ : state) {
    const Trellis search(grid, weights());
    for (std::int64_t part = 0; part < search.parts(); ++part) search.choose(part, kStep, chosen);
  }
  count(state, true);
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) {
  using namespace gbcompress;
  for (const bool dependent : {true, false}) {
    const std::string kind = dependent ? "dependent" : "nearest";
    const auto add = [&](const std::string& name, auto function) {
      benchmark::RegisterBenchmark((name + "/" + kind).c_str(), function)
          ->Unit(benchmark::kMillisecond);
    };
    for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
      const std::int64_t target = rest;  // one bit a target, better ones first
      const std::string level = hwy::TargetName(rest & -rest);
      add("decode/lanes fp32/" + level,
          [=](benchmark::State& state) { decode<float>(state, dependent, target); });
      add("decode/lanes bf16/" + level,
          [=](benchmark::State& state) { decode<lanes::Bfloat16>(state, dependent, target); });
      add("decode/lanes fp16/" + level,
          [=](benchmark::State& state) { decode<lanes::Float16>(state, dependent, target); });
    }
    add("encode/lanes", [=](benchmark::State& state) { encode(state, dependent); });
  }
  for (const int threads : {1, 2})
    benchmark::RegisterBenchmark(("encode/stripes/threads:" + std::to_string(threads)).c_str(),
                                 [=](benchmark::State& state) { stripes(state, threads); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  benchmark::RegisterBenchmark("trellis/lanes", trellis)->Unit(benchmark::kMillisecond);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
