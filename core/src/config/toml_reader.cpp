#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_ENABLE_UNRELEASED_FEATURES 0
#include "config/toml_reader.h"

#include <toml++/toml.h>

#include <algorithm>
#include <tuple>

#include "base/text.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string place(const std::string& label, const toml::source_position& at) {
  return label + ":" + std::to_string(at.line) + ":" + std::to_string(at.column);
}

std::string description(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::boolean:
      return "a boolean";
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list of different things";
    default:
      return "a date or time";
  }
}

SettingValue to_value(const toml::node& node) {
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* array = node.as_array()) {
    std::vector<std::int64_t> whole;
    std::vector<double> numbers;
    for (const auto& element : *array) {
      if (const auto value = element.value_exact<std::int64_t>()) whole.push_back(*value);
      if (element.is_number()) numbers.push_back(*element.value<double>());
    }
    if (whole.size() == array->size()) return whole;
    if (numbers.size() == array->size()) return numbers;
  }
  return OtherValue{description(node)};
}

struct Flattener {
  struct Placed {
    toml::source_position at;
    ConfigItem item;
  };
  const std::string& label;
  std::vector<Placed> placed;
  ConfigDocument document;

  void add(const std::string& key, int layer, const toml::key& at, const toml::node& node) {
    placed.push_back({at.source().begin,
                      {key, layer, to_value(node), place(label, at.source().begin),
                       place(label, node.source().begin)}});
  }

  void layers(const toml::array& tables) {
    for (const auto& element : tables) {
      const auto index = static_cast<int>(document.layers.size());
      document.layers.push_back(place(label, element.source().begin));
      for (const auto& [key, node] : *element.as_table()) {
        add(std::string(key.str()), index, key, node);
      }
    }
  }

  void top(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const std::string name(key.str());
      if (name == "layer" && node.is_array_of_tables()) {
        layers(*node.as_array());
        continue;
      }
      add(name, -1, key, node);
      if (const auto* table = node.as_table()) {
        for (const auto& [inner, value] : *table)
          add(name + "." + std::string(inner.str()), -1, inner, value);
      }
    }
    std::sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.at.line, a.at.column) < std::tie(b.at.line, b.at.column);
    });
    for (auto& each : placed) document.items.push_back(std::move(each.item));
  }
};

}  // namespace

ConfigDocument parse_config(std::string_view text, const std::string& label) {
  check_nesting(text, label);
  try {
    const toml::table root = toml::parse(text);
    Flattener flattener{label, {}, {}};
    flattener.top(root);
    return std::move(flattener.document);
  } catch (const toml::parse_error& error) {
    throw Error(Errc::kConfig, place(label, error.source().begin) + ": " +
                                   printable(std::string(error.description())));
  }
}

SettingValue parse_value(std::string_view text, const std::string& source) {
  if (text.size() > kMaxConfigBytes || text.find('\n') != std::string_view::npos)
    throw Error(Errc::kConfig, source + ": the value is not a single line");
  check_nesting(text, source);
  try {
    const toml::table root = toml::parse("v = " + std::string(text));
    return to_value(*root.get("v"));
  } catch (const toml::parse_error& error) {
    throw Error(Errc::kConfig, source + ": " + printable(text) + " is not a value: " +
                                   printable(std::string(error.description())));
  }
}

}  // namespace gbcompress
