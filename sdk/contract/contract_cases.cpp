#include <algorithm>
#include <charconv>
#include <utility>

#include "gbcompress/error.h"
#include "gnet_type_contract.h"

namespace gbcompress::contract {
namespace {

struct Offer {
  std::string module_type;  ///< "" for every module that a type claims
  std::string module_path, local_name;
  std::vector<std::int64_t> shape;
};

/// Names and shapes that layers usually have: square, wide, tall, a single weight, primes that no
/// tile divides, kernels of each rank, fused and separate attention, gates
/// of recurrent layers.
std::vector<Offer>& offers() {
  static std::vector<Offer> list = {
      {"", "layer", "weight", {24, 18}},
      {"", "layer", "weight", {7, 31}},
      {"", "layer", "weight", {16, 16}},
      {"", "layer", "weight", {1, 1}},
      {"", "layer", "weight", {29}},
      {"", "layer", "weight", {11, 5, 3}},
      {"", "layer", "weight", {6, 10, 3, 2}},
      {"", "layer", "weight", {4, 5, 2, 3, 2}},
      {"", "attention", "in_proj_weight", {33, 11}},
      {"", "attention", "q_proj_weight", {11, 11}},
      {"", "block.c_attn", "weight", {10, 30}},
      {"", "recurrent", "weight_ih_l0", {24, 7}},
      {"", "recurrent", "weight_hh_l1_reverse", {36, 9}},
      {"", "recurrent", "weight_hr_l0", {5, 13}},
      {"", "cell", "weight_ih", {12, 11}},
      {"", "cell", "weight_hh", {24, 6}},
      {"", "layer", "bias", {24}},
  };
  return list;
}

struct NamedOptions {
  std::string name;
  GNetOptions options;
};

std::vector<NamedOptions> option_sets() {
  GNetOptions single, cropped, ratio, codes;
  single.tile_weights = 1;
  cropped.tile_weights = 20;
  cropped.hidden = {5, 3};
  ratio.ratio = 2;
  ratio.hidden = {4};
  codes.tile_weights = 50;
  codes.row_code = Encoding::kGray;
  codes.col_code = Encoding::kOneHot;
  return {{"default", {}},
          {"one_weight_a_tile", single},
          {"cropped_tiles", cropped},
          {"by_ratio", ratio},
          {"other_codes", codes}};
}

std::string word(std::string text) {
  for (char& c : text)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))) c = '_';
  return text;
}

ParameterInfo parameter_of(const Offer& offer, const std::string& module) {
  ParameterInfo info;
  info.local_name = offer.local_name;
  info.module_path = offer.module_path;
  info.name = offer.module_path + "." + offer.local_name;
  info.module_type = module;
  info.shape = offer.shape;
  info.std = 0.05;
  return info;
}

std::string case_name(const Case& c, const std::string& options) {
  std::string shape;
  for (std::int64_t side : c.parameter.shape)
    shape += (shape.empty() ? "" : "x") + std::to_string(side);
  return word(c.type_id + "_" + c.parameter.module_type + "_" + c.parameter.name + "_" + shape +
              "_" + options);
}

}  // namespace

const GNetType& Case::type() const { return *host().registry().find_by_id(type_id); }
GNetSpec Case::spec() const { return type().spec(parameter, options).value(); }
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

PluginHost& host() {
  static PluginHost instance;
  return instance;
}

void offer_parameter(const std::string& text) {
  const auto wrong = [&] {
    return Error(Errc::kUsage, "--parameter=" + text + " is not MODULE.NAME:SIDExSIDE...");
  };
  const std::size_t dot = text.find('.'), colon = text.find(':');
  if (dot == std::string::npos || colon == std::string::npos || colon < dot) throw wrong();
  Offer offer{text.substr(0, dot), "layer", text.substr(dot + 1, colon - dot - 1), {}};
  const char* at = text.data() + colon + 1;
  const char* const end = text.data() + text.size();
  while (true) {
    std::int64_t side = 0;
    const auto [next, failed] = std::from_chars(at, end, side);
    if (failed != std::errc() || side < 1 || (next != end && *next != 'x')) throw wrong();
    offer.shape.push_back(side);
    if (next == end) break;
    at = next + 1;
  }
  offers().push_back(std::move(offer));
}

std::vector<std::string> type_ids() { return host().registry().ids(); }

std::vector<Case> cases() {
  std::vector<Case> result;
  std::vector<std::string> names;
  for (const std::string& id : type_ids()) {
    const GNetType& type = *host().registry().find_by_id(id);
    for (const std::string& module : type.modules())
      for (const Offer& offer : offers()) {
        if (!offer.module_type.empty() && offer.module_type != module) continue;
        for (const auto& [name, options] : option_sets()) {
          Case c{id, parameter_of(offer, module), options, ""};
          if (!type.spec(c.parameter, c.options)) continue;
          c.name = case_name(c, name);
          if (std::find(names.begin(), names.end(), c.name) != names.end()) continue;
          names.push_back(c.name);
          result.push_back(std::move(c));
        }
      }
  }
  return result;
}

}  // namespace gbcompress::contract
