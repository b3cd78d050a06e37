#include "format/folder/packed_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "format/safetensors/json_scan.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxConfig = 1 << 20, kMaxDepth = 32;
constexpr std::string_view kMethod = "quantization_config", kWeights = "transformers_weights";
constexpr std::string_view kSpace = " \t\r\n";
/// Follows the file's name. Transformers shows the value in its error where the package is missing.
constexpr std::string_view kHint =
    " (a file of gbcompress: install its Python package, and import gbcompress before loading)";

class ConfigHandler : public JsonHandler {
 public:
  bool of_transformers = false, packed = false, names_artifact = false;

  void begin(JsonFrames, bool) override {}
  void end(JsonFrames) override {}
  void text(JsonFrames frames, std::string& value) override {
    if (frames.empty()) return;
    const std::string& key = frames[0].key;
    if (frames.size() == 1 && key == "model_type") of_transformers = true;
    if (frames.size() == 1 && key == kWeights)
      names_artifact = value.find(".gbz") != std::string::npos;
    if (frames.size() == 2 && key == kMethod && frames[1].key == "quant_method")
      packed = value == "gbcompress";
  }
  void whole(JsonFrames, std::uint64_t) override {}
  void other(JsonFrames) override {}
};

/// @return false for what is no JSON object within the bounds
bool scan_config(std::string_view config, ConfigHandler& handler) {
  const std::size_t first = config.find_first_not_of(kSpace);
  if (config.size() > kMaxConfig || first == config.npos || config[first] != '{') return false;
  try {
    scan_json(config, "config.json", kMaxDepth, handler);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// Bytes of one member of the outermost object.
struct Member {
  std::string_view key;
  std::size_t begin;  ///< behind the '{' or ',' before it
  std::size_t end;    ///< of the value; the ',' or '}' behind it
};

/// @param config  an object that scan_config() has taken
std::vector<Member> members_of(std::string_view config) {
  std::vector<Member> members;
  std::size_t depth = 0, begin = 0;
  std::string_view key;
  bool keyed = false;  // a key may be empty
  for (std::size_t i = 0; i < config.size(); ++i) {
    const char c = config[i];
    if (c == '"') {
      const std::size_t quote = i;
      while (config[++i] != '"') i += config[i] == '\\' ? 1U : 0U;
      if (!keyed) key = config.substr(quote + 1, i - quote - 1);
      keyed = true;
    } else if (c == '{' || c == '[') {
      if (++depth == 1) begin = i + 1;
    } else if (c == '}' || c == ']' || (c == ',' && depth == 1)) {
      if (depth == 1) {
        if (keyed) members.push_back({key, begin, i});
        keyed = false;
        begin = i + 1;
      }
      if (c != ',') --depth;
    }
  }
  return members;
}

const Member* find(const std::vector<Member>& members, std::string_view key) {
  const auto found = std::find_if(members.begin(), members.end(),
                                  [&](const Member& member) { return member.key == key; });
  return found == members.end() ? nullptr : &*found;
}

/// With the comma behind it, or that before the last one.
std::string without(std::string_view config, std::string_view key) {
  const std::vector<Member> members = members_of(config);
  const Member* member = find(members, key);
  std::string text(config);
  if (member == nullptr) return text;
  if (config[member->end] == ',') return text.erase(member->begin, member->end + 1 - member->begin);
  const std::size_t comma = member == members.data() ? member->begin : member->begin - 1;
  return text.erase(comma, member->end - comma);
}

}  // namespace

std::string without_packed_weights(std::string_view config) {
  ConfigHandler handler;
  std::string text(config);
  if (!scan_config(config, handler)) return text;
  if (handler.packed) text = without(text, kMethod);
  return handler.names_artifact ? without(text, kWeights) : text;
}

std::string with_packed_weights(std::string_view config, std::string_view artifact) {
  ConfigHandler handler;
  std::string text = without_packed_weights(config);
  if (!scan_config(text, handler) || !handler.of_transformers) return text;
  const std::vector<Member> members = members_of(text);
  std::string added;
  if (find(members, kMethod) == nullptr)
    added += "\n  \"" + std::string(kMethod) + R"(": {"quant_method": "gbcompress"},)";
  if (find(members, kWeights) == nullptr) {
    const nlohmann::json value = std::string(artifact) + std::string(kHint);
    added += "\n  \"" + std::string(kWeights) +
             "\": " + value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace) + ",";
  }
  return text.insert(text.find('{') + 1, added);
}

}  // namespace gbcompress
