// States of searches through their bytes, and damaged bytes.
#include "search/search_state.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <random>

#include "gbcompress/error.h"
#include "support/code_of.h"

namespace gbcompress {
namespace {

using nlohmann::json;

LambdaSearchState some_state() {
  LambdaSearchState state;
  state.points = {{0.1, 12'345, 0, false, 0}, {0.4 / 3, 678, -0.25, true, 0.1}};
  state.baseline = 98.76;
  state.noise = 1.0 / 3;
  state.baseline_seen = 99.5;
  state.relearned = true;
  state.best_above_chance = 88;
  state.best_lambda = 0.1;
  state.best_kept = 0.97;
  state.best_loss = 1e-300;
  state.base_lambda = 5e-324;
  return state;
}

std::vector<std::byte> bytes_of(const json& value) {
  const auto cbor = json::to_cbor(value);
  const auto* first = reinterpret_cast<const std::byte*>(cbor.data());
  return {first, first + cbor.size()};
}

TEST(SearchState, LambdaStatesComeBackBitForBit) {
  const LambdaSearchState state = some_state();
  EXPECT_EQ(lambda_search_state_of(to_cbor(state)), state);
  EXPECT_EQ(lambda_search_state_of(to_cbor(LambdaSearchState())), LambdaSearchState());
  LambdaSearchState nan = state;
  nan.points[0].drop = std::numeric_limits<double>::quiet_NaN();
  nan.noise = std::numeric_limits<double>::infinity();
  const LambdaSearchState back = lambda_search_state_of(to_cbor(nan));
  EXPECT_TRUE(std::isnan(back.points[0].drop));
  EXPECT_EQ(back.noise, nan.noise);
}

TEST(SearchState, TheBytesAreCborWithKindAndVersion) {
  const auto bytes = to_cbor(some_state());
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const json state = json::from_cbor(first, first + bytes.size());
  EXPECT_EQ(state.at("version"), LambdaSearchState::kVersion);
  EXPECT_EQ(state.at("points").at(1).at(1), 678);
}

TEST(SearchState, OtherVersionsKindsAndDamageAreRefused) {
  json later = {{"state", "lambda search"}, {"version", LambdaSearchState::kVersion + 1}};
  EXPECT_EQ(code_of([&] { lambda_search_state_of(bytes_of(later)); }), Errc::kCorrupt);
  json other = {{"state", "bracket search"}, {"version", LambdaSearchState::kVersion}};
  EXPECT_EQ(code_of([&] { lambda_search_state_of(bytes_of(other)); }), Errc::kCorrupt);
  EXPECT_EQ(code_of([&] { lambda_search_state_of({}); }), Errc::kCorrupt);
  const std::vector<std::byte> nested(100'000, std::byte{0x81});  // arrays in arrays
  EXPECT_EQ(code_of([&] { lambda_search_state_of(nested); }), Errc::kCorrupt);
  const auto bytes = to_cbor(some_state());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_EQ(code_of([&] { lambda_search_state_of(std::span(bytes).first(n)); }), Errc::kCorrupt);
  std::mt19937_64 random(1);
  for (int n = 0; n < 3000; ++n) {  // any bytes: a state or a refusal
    std::vector<std::byte> damaged = bytes;
    damaged[random() % damaged.size()] = static_cast<std::byte>(random());
    try {
      lambda_search_state_of(damaged);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Errc::kCorrupt);
    }
  }
}

}  // namespace
}  // namespace gbcompress
