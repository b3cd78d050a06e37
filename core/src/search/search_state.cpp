#include "search/search_state.h"

#include <nlohmann/json.hpp>
#include <string>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using nlohmann::json;

/// Of a state; larger ones are damaged, and might be nested without end.
constexpr std::size_t kMostBytes = 8192;

std::vector<std::byte> bytes_of(const json& state) {
  const std::vector<std::uint8_t> cbor = json::to_cbor(state);
  const auto* first = reinterpret_cast<const std::byte*>(cbor.data());
  return {first, first + cbor.size()};
}

/// @param read  takes the state out of the parsed object
template <typename Read>
auto parsed(std::span<const std::byte> cbor, const char* kind, int version, const Read& read) {
  try {
    const auto* first = reinterpret_cast<const std::uint8_t*>(cbor.data());
    const json state =
        cbor.size() > kMostBytes ? json() : json::from_cbor(first, first + cbor.size());
    if (state.at("state") == kind && state.at("version") == version) return read(state);
  } catch (const json::exception&) {
    // One message for all that can be wrong with the bytes.
  }
  throw Error(Errc::kCorrupt, std::string("the checkpoint holds no ") + kind +
                                  " state of version " + std::to_string(version) +
                                  "; use another one, or start again without `resume`");
}

constexpr const char* kLambda = "lambda search";

}  // namespace

std::vector<std::byte> to_cbor(const LambdaSearchState& s) {
  json points = json::array();
  for (const LambdaPoint& p : s.points)
    points.push_back({p.lambda, p.bytes, p.drop, p.collapsed, p.from});
  return bytes_of({{"state", kLambda},
                   {"version", LambdaSearchState::kVersion},
                   {"points", std::move(points)},
                   {"baseline", s.baseline},
                   {"noise", s.noise},
                   {"baseline_seen", s.baseline_seen},
                   {"relearned", s.relearned},
                   {"best_above_chance", s.best_above_chance},
                   {"best", {s.best_lambda, s.best_kept, s.best_loss}},
                   {"base_lambda", s.base_lambda}});
}

LambdaSearchState lambda_search_state_of(std::span<const std::byte> cbor) {
  return parsed(cbor, kLambda, LambdaSearchState::kVersion, [](const json& j) {
    LambdaSearchState s;
    const json& points = j.at("points");
    for (const json& p : points)
      s.points.push_back({p.at(0).get<double>(), p.at(1).get<std::int64_t>(), p.at(2).get<double>(),
                          p.at(3).get<bool>(), p.at(4).get<double>()});
    s.baseline = j.at("baseline").get<double>();
    s.noise = j.at("noise").get<double>();
    s.baseline_seen = j.at("baseline_seen").get<double>();
    s.relearned = j.at("relearned").get<bool>();
    s.best_above_chance = j.at("best_above_chance").get<double>();
    const json& best = j.at("best");
    s.best_lambda = best.at(0).get<double>();
    s.best_kept = best.at(1).get<double>();
    s.best_loss = best.at(2).get<double>();
    s.base_lambda = j.at("base_lambda").get<double>();
    return s;
  });
}

}  // namespace gbcompress
