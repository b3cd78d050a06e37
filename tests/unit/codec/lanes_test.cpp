#include <gtest/gtest.h>

#include "base/float16.h"
#include "codec/trellis/quantizer_state.h"
#include "support/code_of.h"
#include "unit/codec/lanes_parts.h"

namespace gbcompress {
namespace {

using namespace testing_codec;

/// What integers stand for in steps of 2, from the rule of docs/reference/lanes.md.
std::vector<float> numbers_in_lanes(const Tensor& tensor, const std::vector<float>& row_scales) {
  const IntegerGrid& grid = tensor.grid;
  const bool narrow = grid.rows < 2 || grid.cols < 2 || grid.cols > 1 << 20;
  const std::size_t width = narrow ? 64 : static_cast<std::size_t>(grid.cols);
  const std::size_t block = std::max<std::size_t>(1, (1 << 20) / width) * width;
  std::vector<float> numbers;
  unsigned states[64] = {};
  for (std::size_t i = 0; i < tensor.values.size(); ++i) {
    if (i % block == 0) std::fill(states, states + 64, 0u);
    unsigned& state = states[i % block % 64];
    const int k = tensor.values[i];
    int twice = 2 * k;
    if (state % 2 == 1 && k != 0) twice -= k > 0 ? 1 : -1;
    const std::size_t row = i / static_cast<std::size_t>(grid.cols);
    const float scale = row_scales[row_scales.size() > 1 ? row : 0];
    numbers.push_back(static_cast<float>(grid.dependent ? twice : k) * scale);
    state = (state / 2) ^ (state % 2 ? 119u : 0u) ^ (grid.dependent && k % 2 != 0 ? 35u : 0u);
  }
  return numbers;
}

std::uint16_t to_bfloat16(float number) {
  std::uint32_t bits;
  std::memcpy(&bits, &number, 4);
  const std::uint32_t below = bits & 0xffff, half = 0x8000;
  bits >>= 16;
  return static_cast<std::uint16_t>(bits + (below > half || (below == half && bits % 2)));
}

TEST(Lanes, EveryWidthComesBack) {
  for (std::int64_t cols = 1; cols <= 200; ++cols) {
    const bool dependent = cols % 2;
    const double scale = std::exp2(static_cast<double>(cols % 16) - 4);
    std::vector<Tensor> tensors;
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{2}, 3 + cols % 30})
      tensors.push_back(
          lanes_tensor(rows, cols, dependent, scale, static_cast<std::uint64_t>(cols)));
    const auto found = decode(kLanesProfile, encode(kLanesProfile, tensors), tensors);
    for (std::size_t t = 0; t < tensors.size(); ++t)
      ASSERT_EQ(found[t], tensors[t].values) << tensors[t].grid.rows << " x " << cols;
  }
}

TEST(Lanes, ExtremeValuesComeBack) {
  std::vector<Tensor> tensors;
  for (const bool dependent : {false, true}) {
    IntegerGrid grid{37, 130, 0, dependent};
    grid.lanes = dependent;
    const auto fill = [&](auto value) {
      Tensor tensor{grid, {}, {}};
      for (std::int64_t r = 0; r < grid.rows; ++r)
        for (std::int64_t c = 0; c < grid.cols; ++c) tensor.values.push_back(value(r, c));
      tensors.push_back(std::move(tensor));
    };
    fill([](auto, auto) { return 0; });
    fill([](auto, auto) { return kMaxMagnitude; });
    fill([](auto r, auto) { return static_cast<std::int32_t>(r % 2 ? -kMaxMagnitude : r); });
    fill([](auto r, auto c) {
      return static_cast<std::int32_t>((r * c) % 21 == 3 ? 1 << r % 21 : 0);
    });
    fill([](auto, auto c) { return static_cast<std::int32_t>(c == 77 ? -900000 : c % 3 - 1); });
    fill([](auto r, auto c) { return static_cast<std::int32_t>((r * 130 + c) * 217 % 1000003); });
  }
  const auto stream = encode(kLanesProfile, tensors);
  on_every_target([&](const char* target) {
    const auto found = decode(kLanesProfile, stream, tensors);
    for (std::size_t t = 0; t < tensors.size(); ++t)
      ASSERT_EQ(found[t], tensors[t].values) << t << " on " << target;
  });
}

TEST(Lanes, NumbersHaveTheSameBitsOnEveryProcessor) {
  std::uint64_t seed = 1;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{{1, 1},
                                                                   {1, 500},
                                                                   {300, 1},
                                                                   {70, 9},
                                                                   {40, 27},
                                                                   {33, 64},
                                                                   {21, 100},
                                                                   {12, 1000},
                                                                   {50, 192}})
    for (const bool dependent : {false, true})
      for (const double scale : {0.05, 1.0, 30.0}) {
        const Tensor tensor = lanes_tensor(rows, cols, dependent, scale, seed++);
        const auto stream = encode(kLanesProfile, {tensor});
        std::vector<float> scales = {0.37f};
        if (seed % 2 == 0 && rows > 1) {
          scales.clear();
          for (int r = 0; r < rows; ++r) scales.push_back(0.01f * static_cast<float>(r + 1));
        }
        const std::vector<float> numbers = numbers_in_lanes(tensor, scales);
        on_every_target(
            [&, shape = std::to_string(rows) + " x " + std::to_string(cols)](const char* target) {
              ASSERT_EQ(decode(kLanesProfile, stream, {tensor})[0], tensor.values) << target;
              ASSERT_EQ(decode_numbers<float>(stream, tensor.grid, scales), numbers)
                  << shape << " on " << target;
              const auto shorter = decode_numbers<Bfloat16>(stream, tensor.grid, scales);
              for (std::size_t i = 0; i < numbers.size(); ++i)
                ASSERT_EQ(shorter[i].bits, to_bfloat16(numbers[i])) << target;
              for (const float factor : {1.0f, 1e-7f, 3e-6f, 2000.0f}) {  // subnormal, too large
                std::vector<float> other = scales;
                for (float& each : other) each *= factor;
                const auto whole = decode_numbers<float>(stream, tensor.grid, other);
                const auto halves = decode_numbers<Float16>(stream, tensor.grid, other);
                for (std::size_t i = 0; i < whole.size(); ++i)
                  ASSERT_EQ(halves[i].bits, float_to_half(whole[i])) << target << " " << whole[i];
              }
            });
      }
}

TEST(Lanes, StatesOfAGridFollowTheSameRule) {
  for (const auto& [rows, cols] :
       std::vector<std::pair<int, int>>{{1, 90}, {7, 100}, {1500, 1000}}) {
    const Tensor tensor = lanes_tensor(rows, cols, true, 1, 3);
    const std::vector<float> numbers = numbers_in_lanes(tensor, {1});
    codec::QuantizerStates states(tensor.grid);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      codec::QuantizerState& state = states.next();
      ASSERT_EQ(static_cast<float>(state.twice(tensor.values[i])), numbers[i]) << i;
      state.pass(tensor.values[i]);
    }
  }
}

/// Several blocks, stripes that several grids share, columns that differ from block to block.
TEST(Lanes, StripesHoldWholeBlocksOfSeveralGrids) {
  std::vector<Tensor> tensors;
  for (const auto& [rows, cols] : std::vector<std::pair<int, int>>{
           {500, 300}, {1100, 2000}, {10, 10}, {3, 5}, {1, 1200000}, {900, 1000}})
    tensors.push_back(
        lanes_tensor(rows, cols, rows % 20 == 0, 1, static_cast<std::uint64_t>(rows)));
  Tensor& large = tensors[1];
  for (std::size_t i = 0; i < large.values.size(); ++i)
    if (i % 2000 < 700 && i / 2000 >= 524) large.values[i] /= 4;
  codec::lanes::Stripes stripes;
  for (const Tensor& tensor : tensors) stripes.add(codec::lanes::Shape(tensor.grid));
  const auto stream = encode(kLanesProfile, tensors);
  const auto parts = codec::lanes::stream_parts(stream);
  ASSERT_EQ(parts.stripes.size(), stripes.pieces().size());
  // 150,000 and half of 524 x 2000; the other block; 52 rows of it, 100, 15; ...
  EXPECT_EQ(stripes.pieces()[0].size(), 1u);
  EXPECT_EQ(stripes.pieces()[1].size(), 1u);
  EXPECT_EQ(stripes.pieces()[3].size(), 3u);
  codec::lanes::HeadReader reader(parts.head);
  reader.read(codec::lanes::Shape(tensors[0].grid), tensors[0].grid.dependent);
  EXPECT_TRUE(reader.read(codec::lanes::Shape(large.grid), large.grid.dependent).classes.by_block);
  const auto found = decode(kLanesProfile, stream, tensors);
  for (std::size_t t = 0; t < tensors.size(); ++t) ASSERT_EQ(found[t], tensors[t].values) << t;
}

TEST(Lanes, EncodersGiveTheSameBytesOnEveryProcessor) {
  // Lines of all lengths; escapes, low bits apart, and neither; several grids in a stripe.
  std::vector<Tensor> tensors;
  std::uint64_t seed = 0;
  for (const std::int64_t cols : {1, 5, 63, 64, 65, 300, 2049})
    for (const double scale : {0.4, 3.0, 60.0, 9000.0})
      for (const bool dependent : {false, true}) {
        Tensor& made = tensors.emplace_back(lanes_tensor(70, cols, dependent, scale, ++seed));
        for (std::size_t i = 3; i < made.values.size(); i += 97)
          made.values[i] = std::clamp(40 * made.values[i], -kMaxMagnitude, kMaxMagnitude);
      }
  for (std::size_t first = 0; first < tensors.size(); first += 7) {
    const std::vector<Tensor> some(tensors.begin() + static_cast<std::ptrdiff_t>(first),
                                   tensors.begin() + static_cast<std::ptrdiff_t>(first + 7));
    const auto best = encode(kLanesProfile, some);
    const auto found = decode(kLanesProfile, best, some);
    for (std::size_t t = 0; t < some.size(); ++t) EXPECT_EQ(found[t], some[t].values) << first + t;
    on_every_target(
        [&](const char* target) { EXPECT_EQ(encode(kLanesProfile, some), best) << target; });
  }
}

TEST(Lanes, SameIntegersSameBytes) {
  const std::vector<Tensor> tensors = {lanes_tensor(90, 70, true, 2, 1),
                                       lanes_tensor(9, 400, false, 20, 2)};
  EXPECT_EQ(encode(kLanesProfile, tensors), encode(kLanesProfile, tensors));
}

/// Tables that adapt take at most a hundredth less on a matrix of this size.
TEST(Lanes, TakesAboutWhatIsEstimated) {
  for (const double scale : {0.4, 1.0, 4.0, 15.0, 90.0}) {
    Tensor tensor = lanes_tensor(700, 600, false, scale, 7);
    for (std::int32_t& value : tensor.values)
      if (std::abs(value) > 3000 * scale) value = 1;  // no outliers
    const double expected = estimated_bits(kLanesProfile, tensor.grid, tensor.values) / 8;
    const auto bytes = static_cast<double>(encode(kLanesProfile, {tensor}).size());
    EXPECT_LT(bytes, 1.01 * expected + 300) << scale;
    EXPECT_GT(bytes, 0.99 * expected) << scale;
  }
}

TEST(Lanes, ATrellisChoosesItsPathsInLanes) {
  for (const auto& [rows, cols] :
       std::vector<std::pair<int, int>>{{1, 1}, {3, 50}, {70, 90}, {1100, 1000}}) {
    IntegerGrid grid{rows, cols, 0, true};
    grid.lanes = true;
    std::vector<float> values(static_cast<std::size_t>(grid.size()));
    RandomStream(4, "gaussian").fill_normal(values, 0, 1);
    Tensor chosen{grid, std::vector<std::int32_t>(values.size()), {}};
    const Trellis trellis(grid, values);
    double promised = 0;
    for (std::int64_t part = 0; part < trellis.parts(); ++part)
      promised += trellis.choose(part, 0.5f, chosen.values);
    const std::vector<float> numbers = numbers_in_lanes(chosen, {0.25f});
    double error = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double off = static_cast<double>(numbers[i]) - static_cast<double>(values[i]);
      error += off * off;
    }
    EXPECT_NEAR(promised, error, 1e-9 * error + 1e-12);
    // Nearest integers have a twelfth of a squared step, 0.0208 a value.
    if (grid.size() > 1000) {
      EXPECT_LT(error / static_cast<double>(grid.size()), 0.0170);
    }
  }
}

TEST(Lanes, OtherOrdersOfStatesAreRefused) {
  IntegerGrid grid{2, 2, 0, true};
  const std::vector<std::int32_t> four = {1, 2, 3, 4};
  EXPECT_EQ(code_of([&] { IntegerEncoder(kLanesProfile).add(grid, four); }), Errc::kUsage);
  grid.lanes = true;
  EXPECT_EQ(code_of([&] { IntegerEncoder(CodecProfile::kSmall).add(grid, four); }), Errc::kUsage);
  const std::vector<float> good = {0, 1, 2, 3};
  EXPECT_EQ(code_of([&] {
              IntegerEncoder(kLanesProfile).quantize_and_add({2, 2, 0}, good, {}, 1);
            }),
            Errc::kUsage);
}

}  // namespace
}  // namespace gbcompress
