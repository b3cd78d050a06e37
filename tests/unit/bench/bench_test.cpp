#include "gbcompress/bench.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "bench/machine_probe.h"
#include "bench/memory.h"
#include "bench/samples.h"
#include "bench/shapes.h"
#include "gbcompress/error.h"
#include "gnet/fused.h"
#include "support/layer_types.h"

namespace gbcompress {
namespace {

template <typename Body>
Errc code_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

TEST(Samples, MedianIsTheMiddleOrTheMeanOfTwo) {
  EXPECT_EQ(median({3}), 3);
  EXPECT_EQ(median({9, 1, 2}), 2);
  EXPECT_EQ(median({8, 1, 2, 4}), 3);
}

TEST(Operations, CountedByHand) {
  const WeightOperations flat = weight_operations({32});
  EXPECT_EQ(flat.forward, 64);   // 32 maxima, 32 multiply-adds
  EXPECT_EQ(flat.backward, 96);  // 32 comparisons, 64 additions
  // 3-2: 3 additions and 3 maxima, 6 products and 2 maxima, 2 products.
  const WeightOperations deep = weight_operations({3, 2});
  EXPECT_EQ(deep.forward, 16);
  // Again 16; 8 products twice; 5 masks; two sums of 3.
  EXPECT_EQ(deep.backward, 43);
  EXPECT_EQ(code_of([] { weight_operations({}); }), Errc::kUsage);
}

TEST(Machine, RatesAreThoseOfAComputer) {
  MachineProbe probe;
  probe.sample();
  const MachineRates rates = probe.rates();
  EXPECT_EQ(rates.threads, at::get_num_threads());
  EXPECT_EQ(rates.isa, fused_target_name());
  // From a tenth of one scalar unit at 1 GHz to far beyond what cores do.
  EXPECT_GT(rates.fma_per_second, 1e8);
  EXPECT_LT(rates.fma_per_second, 1e12 * rates.threads);
  EXPECT_GT(rates.copy_bytes_per_second, 1e8);
  EXPECT_LT(rates.copy_bytes_per_second, 1e13);
}

TEST(Machine, AnOlderInstructionSetIsRestrictedToAndTakenBack) {
  const std::string best = fused_target_name();
  EXPECT_EQ(code_of([] { restrict_isa("Z80"); }), Errc::kUsage);
  EXPECT_EQ(fused_target_name(), best);
  try {
    restrict_isa("SSE4");
  } catch (const Error&) {
    GTEST_SKIP() << "this processor is not an x86";
  }
  EXPECT_STREQ(fused_target_name(), "SSE4");
  MachineProbe probe;
  probe.sample();
  EXPECT_EQ(probe.rates().isa, "SSE4");
  restrict_isa("");
  EXPECT_EQ(fused_target_name(), best);
}

TEST(Shapes, HaveTheWeightsTheyAreNamedFor) {
  const auto weights = [](const std::string& name) {
    std::int64_t count = 0;
    for (const NamedParameter& layer : make_engine_shape(name).tensors)
      count += layer.info.elements();
    return count;
  };
  EXPECT_EQ(weights("mnist-mlp"), 784 * 256 + 256 * 256 + 256 * 64 + 64 * 10);
  EXPECT_EQ(weights("gpt2-block"), 4'718'592);
  EXPECT_EQ(weights("resnet20"), 6 * 2304 + 4608 + 5 * 9216 + 18432 + 5 * 36864 + 640);
  EXPECT_EQ(weights("pnas-layer"), 784 * 800);
  EXPECT_EQ(weights("30x7"), 210);
  for (const char* wrong : {"mnist-mlq", "30x", "x7", "30x7x2", "0x7", "30x-7", "",
                            "99999999999x99999999999", "99999999999999999999x1"})
    EXPECT_EQ(code_of([&] { make_engine_shape(wrong); }), Errc::kUsage) << wrong;
}

TEST(Memory, PeakSeesWhatWasGivenBack) {
  if (!reset_peak() || peak_bytes() < 0) GTEST_SKIP() << "the system does not tell its peak";
  constexpr std::int64_t kBytes = 64 << 20, kSlack = 8 << 20;  // the kernel counts in batches
  const std::int64_t before = resident_bytes();
  { const std::vector<char> block(kBytes, 1); }
  EXPECT_GE(peak_bytes(), before + kBytes - kSlack);
  EXPECT_LE(peak_bytes(), before + kBytes + kSlack);
  ASSERT_TRUE(reset_peak());
  EXPECT_LE(peak_bytes(), before + kSlack);
}

TEST(Engine, MeasuresEachShapeThroughABottleneck) {
  const EngineReport report =
      measure_engine(test_registry(), {.shapes = {"250x120", "pnas-layer"}, .seconds = 0.02});
  EXPECT_EQ(report.kernel, "fused");
  ASSERT_EQ(report.rows.size(), 2u);
  const EngineRow& layer = report.rows[0];
  EXPECT_EQ(layer.shape, "250x120");
  EXPECT_EQ(layer.gnet, "14-32-1");
  EXPECT_EQ(layer.weights, 30'000);
  EXPECT_EQ(layer.tiles, 6);
  EXPECT_EQ(layer.gnet_parameters, 6 * 513);
  EXPECT_EQ(layer.model_bytes, 240'000);
  EXPECT_EQ(layer.bank_bytes, 16 * 6 * 513);
  const EngineRow& deep = report.rows[1];
  EXPECT_EQ(deep.gnet, "20-30-10-1");
  EXPECT_EQ(deep.tiles, 1);
  for (const EngineRow& row : report.rows) {
    EXPECT_GE(row.samples, 1);
    EXPECT_NEAR(row.step_seconds * row.step.weights_per_second, static_cast<double>(row.weights),
                1e-6 * static_cast<double>(row.weights));
    for (const EngineRate& rate : {row.forward, row.backward, row.step}) {
      EXPECT_GT(rate.weights_per_second, 1e3);
      EXPECT_GT(rate.fma_fraction, 0);
      EXPECT_GT(rate.copy_fraction, 0);
    }
    EXPECT_LE(row.step_extra_bytes, 64 << 20);
  }
}

TEST(Engine, WrongInputIsRefused) {
  const Registry types = test_registry();
  const auto measure = [&](EngineOptions options) {
    return code_of([&] { measure_engine(types, options); });
  };
  EXPECT_EQ(measure({.shapes = {"no-such"}}), Errc::kUsage);
  EXPECT_EQ(measure({.shapes = {"2x2"}}), Errc::kUsage);  // smaller than its g-net
  EXPECT_EQ(measure({.seconds = 0}), Errc::kUsage);
  EXPECT_EQ(measure({.shapes = {"100x100"}, .kernel = "quick"}), Errc::kUsage);
  EXPECT_EQ(code_of([] { measure_engine(Registry(), {.shapes = {"100x100"}}); }),
            Errc::kPluginMissing);
}

}  // namespace
}  // namespace gbcompress
