#include <gtest/gtest.h>
#include <hwy/targets.h>

#include "codec/trellis/quantizer_state.h"
#include "codec/trellis/trellis_path.h"
#include "gbcompress/error.h"
#include "support/code_of.h"
#include "unit/codec/tensors.h"

namespace gbcompress {
namespace {

using testing_codec::decode;
using testing_codec::encode;
using testing_codec::laplace;
using testing_codec::Tensor;

std::vector<float> gaussian(std::int64_t n, std::uint64_t seed) {
  std::vector<float> values(static_cast<std::size_t>(n));
  RandomStream(seed, "gaussian").fill_normal(values, 0, 1);
  return values;
}

/// What a decoder makes of integers, from the rule of docs/reference/codec.md.
std::vector<double> decoded(const std::vector<std::int32_t>& integers, double step) {
  std::vector<double> values;
  unsigned state = 0;
  for (const std::int32_t k : integers) {
    const double half = state % 2 == 1 && k != 0 ? (k > 0 ? 0.5 : -0.5) : 0;
    values.push_back((k - half) * step);
    state = (state / 2) ^ (state % 2 ? 119u : 0u) ^ (k % 2 != 0 ? 35u : 0u);
  }
  return values;
}

double squared_error(const std::vector<double>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double off = a[i] - static_cast<double>(b[i]);
    sum += off * off;
  }
  return sum;
}

struct Chosen {
  Tensor tensor;
  double error = 0;
};
Chosen choose(IntegerGrid grid, const std::vector<float>& values, float step) {
  grid.dependent = true;
  Chosen chosen{{grid, std::vector<std::int32_t>(values.size()), {}}};
  const Trellis trellis(grid, values);
  for (std::int64_t part = 0; part < trellis.parts(); ++part)
    chosen.error += trellis.choose(part, step, chosen.tensor.values);
  return chosen;
}

class Dependent : public ::testing::TestWithParam<CodecProfile> {};
INSTANTIATE_TEST_SUITE_P(Profiles, Dependent, ::testing::Values(CodecProfile::kSmall),
                         [](const auto& info) { return std::string(profile_name(info.param)); });

/// 0.2 bits of the 0.25 that any quantizer could save.
TEST_P(Dependent, GaussianNumbersTakeAFifthOfABitLess) {
  const IntegerGrid grid{250, 400, 0};
  const std::vector<float> values = gaussian(grid.size(), 1);
  const auto n = static_cast<double>(grid.size());
  for (const int k : {-40, -24, -8}) {
    const float step = std::exp2(static_cast<float>(k) / 16);
    Tensor nearest{grid, {}, {}};
    std::vector<double> rounded;
    for (const float value : values) {
      nearest.values.push_back(static_cast<std::int32_t>(std::lrint(value / step)));
      rounded.push_back(static_cast<double>(static_cast<float>(nearest.values.back()) * step));
    }
    const Chosen chosen = choose(grid, values, step);
    const double bits =
        [&](const Tensor& tensor) {
          return 8 * static_cast<double>(encode(GetParam(), {tensor}).size()) / n;
        }(nearest)-8 *
        static_cast<double>(encode(GetParam(), {chosen.tensor}).size()) / n;
    EXPECT_GT(bits + std::log2(squared_error(rounded, values) / chosen.error) / 2, 0.195) << k;
  }
}

TEST_P(Dependent, DecodesToWhatTheTrellisPromised) {
  for (const IntegerGrid grid :
       {IntegerGrid{1, 1, 0}, {1, 7, 0}, {5, 40, 8}, {3000, 1, 0}, {300, 200, 0}}) {
    std::vector<float> values = gaussian(grid.size(), 2);
    values[0] = 700;
    const Chosen chosen = choose(grid, values, 0.25f);
    const auto found = decode(GetParam(), encode(GetParam(), {chosen.tensor}), {chosen.tensor})[0];
    const double error = squared_error(decoded(found, 0.25), values);
    EXPECT_NEAR(chosen.error, error, 1e-9 * error + 1e-12);
    EXPECT_LT(error, static_cast<double>(grid.size()) * 0.0625 / 12 + 0.06);
  }
}

TEST_P(Dependent, SizeIsWhatTheProbabilitiesAskFor) {
  for (const float step : {0.05f, 0.3f, 1.5f}) {
    const IntegerGrid grid{70, 90, 0};
    const Tensor tensor = choose(grid, gaussian(grid.size(), 3), step).tensor;
    IntegerEncoder encoder(GetParam());
    encoder.add(tensor.grid, tensor.values);
    const double ideal = encoder.ideal_bits() / 8;
    EXPECT_LE(static_cast<double>(encoder.finish().size()), 1.01 * ideal + 64) << step;
  }
}

TEST_P(Dependent, QuantizersHaveTablesOfTheirOwn) {
  Tensor tensor = choose({200, 100, 0}, gaussian(20000, 4), 1.0f).tensor;
  const auto with = encode(GetParam(), {tensor}).size();
  tensor.grid.dependent = false;
  EXPECT_LT(with, encode(GetParam(), {tensor}).size() * 99 / 100);
}

/// Without rate costs a path has the least error of all: every sequence of parities is tried.
TEST(TrellisPath, IsTheBestOne) {
  constexpr int kNumbers = 11;
  codec::RateCosts free{};
  const std::vector<std::int8_t> classes(kNumbers, 0);
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const std::vector<float> values = gaussian(kNumbers, seed);
    std::vector<std::int32_t> integers(kNumbers);
    const bool pinned = seed % 2;
    codec::Band band{values.data(), classes.data(), integers.data(), kNumbers, pinned};
    const float step = 0.5f;
    codec::choose_paths({&band, 1}, step, free);
    double least = INFINITY;
    for (unsigned parities = 0; parities < 1u << kNumbers; ++parities) {
      codec::QuantizerState state(true);
      unsigned number = 0;
      double error = 0;
      for (int i = 0; i < kNumbers; ++i) {
        const int parity = parities >> i & 1;
        double best = INFINITY;
        for (int k = -40; k <= 40; ++k)
          if ((k & 1) == parity)
            best = std::min(best, std::pow(values[i] - state.twice(k) * step / 2, 2.0));
        error += best;
        state.pass(parity);
        number = codec::QuantizerState::after(number, parity);
      }
      if (!pinned || number == 0) least = std::min(least, error);
    }
    // Costs are whole numbers of 1024ths of a squared step.
    EXPECT_NEAR(band.error, least, kNumbers * step * step / 1024) << seed;
  }
}

TEST(Trellis, PartsAreIndependent) {
  const IntegerGrid grid{500, 700, 0, true};
  const std::vector<float> values = gaussian(grid.size(), 5);
  const Trellis trellis(grid, values);
  ASSERT_GT(trellis.parts(), 2);
  std::vector<std::int32_t> forwards(values.size()), backwards(values.size());
  double error = 0, again = 0;
  for (std::int64_t part = 0; part < trellis.parts(); ++part)
    error += trellis.choose(part, 0.5f, forwards);
  for (std::int64_t part = trellis.parts(); part-- > 0;)
    again += trellis.choose(part, 0.5f, backwards);
  EXPECT_EQ(forwards, backwards);
  EXPECT_NEAR(error, again, 1e-9 * error);
  EXPECT_NEAR(error, squared_error(decoded(forwards, 0.5), values), 1e-9 * error);
}

TEST(Trellis, ChoosesTheSameOnEveryProcessor) {
  // The last band is shorter than others, and bands fill the widest vectors or not.
  const IntegerGrid few{7, 2341, 0}, many{300, 331, 0};
  const std::vector<float> values = gaussian(many.size(), 6);
  const std::vector<float> first(values.begin(), values.begin() + few.size());
  const auto both = [&] {
    auto integers = choose(few, first, 0.1f).tensor.values;
    const auto coarse = choose(many, values, 1.2f).tensor.values;
    integers.insert(integers.end(), coarse.begin(), coarse.end());
    return integers;
  };
  const auto best = both();
  for (std::int64_t rest = hwy::SupportedTargets(); rest != 0; rest &= rest - 1) {
    hwy::SetSupportedTargetsForTest(rest);  // one bit a target, better ones first
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    EXPECT_EQ(both(), best) << hwy::TargetName(rest & -rest);
    hwy::SetSupportedTargetsForTest(0);
  }
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

TEST(Trellis, ZerosStayZerosAndForeignSizesAreRefused) {
  const std::vector<float> zeros(900, 0.0f);
  EXPECT_EQ(choose({30, 30, 0}, zeros, 0.5f).tensor.values, std::vector<std::int32_t>(900, 0));
  EXPECT_EQ(code_of([&] { Trellis({30, 31, 0, true}, zeros); }), Errc::kUsage);
  EXPECT_EQ(code_of([&] { Trellis({0, 900, 0, true}, zeros); }), Errc::kUsage);
  IntegerEncoder encoder(CodecProfile::kSmall);
  EXPECT_EQ(code_of([&] {
              encoder.quantize_and_add({30, 30, 0, true}, zeros, {}, 0);
            }),
            Errc::kUsage);
  const std::vector<std::int32_t> integers(900, 0);
  EXPECT_EQ(code_of([&] { expected_scales({30, 30, 0, true}, integers); }), Errc::kUsage);
}

/// Integers that no file holds: the writer refuses them, here nothing breaks.
TEST(Trellis, SurvivesStepsThatAreFarTooSmall) {
  const std::vector<float> values = {1e30f, -1e30f, 3, 1e20f, 0, -5e9f};
  const Tensor tensor = choose({2, 3, 0}, values, 0x1p-20f).tensor;
  EXPECT_GT(tensor.values[0], kMaxMagnitude);
  EXPECT_LT(tensor.values[1], -kMaxMagnitude);
}

}  // namespace
}  // namespace gbcompress
