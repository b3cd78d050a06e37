#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>

#include "base/file.h"
#include "config/removed_names.h"
#include "config/setting_rows.h"
#include "config/toml_reader.h"
#include "config/unknown_keys.h"
#include "gbcompress/error.h"

extern char** environ;

namespace gbcompress {
namespace {

const std::string kPrefix = "GBCOMPRESS_";

[[noreturn]] void fail(const std::string& at, const std::string& what) {
  throw Error(Errc::kConfig, at + ": " + what);
}

template <typename T>
const SettingRow<T>* find(const std::vector<SettingRow<T>>& rows, const std::string& key) {
  for (const auto& row : rows)
    if (row.key == key) return &row;
  return nullptr;
}

/// What to say of a text that is no value of the row.
template <typename T>
std::string choice_hint(const std::string& text, const SettingRow<T>& row) {
  const std::string last = row.key.substr(row.key.rfind('.') + 1);
  const std::string instead = instead_of_removed(last + "=" + text);
  return instead.empty() ? did_you_mean(text, row.choices) : "; " + instead;
}

/// @param shown  the key as messages name it; a flag is named by itself
template <typename T>
void set_row(const SettingRow<T>& row, T& target, const SettingValue& value, const std::string& at,
             const std::string& shown) {
  const auto* text = std::get_if<std::string>(&value);
  const SettingValue read = text && row.with_unit ? row.with_unit(*text) : value;
  if (row.set(target, read)) return;
  const std::string hint = text ? choice_hint(*text, row) : "";
  const std::string what = " must be " + row.accepts + ", not " +
                           (text && row.type != "string" ? printable(*text) : to_toml(value)) +
                           hint + (row.advice ? row.advice(read) : "");
  if (at.starts_with("-")) throw Error(Errc::kConfig, at + what);
  fail(at, shown + what);
}

std::string section_of(const std::string& key) { return key.substr(0, key.find('.')); }

/// Of settings, those that were removed too.
std::set<std::string> sections() {
  std::set<std::string> result;
  for (const auto& row : setting_rows()) result.insert(section_of(row.key));
  for (const RemovedName& each : removed_names())
    if (each.name.find('.') != std::string_view::npos && !each.name.starts_with("layer."))
      result.insert(section_of(std::string(each.name)));
  return result;
}

const std::string kStrategy = "strategy.";

/// Keys of [strategy] that are no settings are options of whatever strategy is named.
bool is_strategy_option(const std::string& key) {
  return key.starts_with(kStrategy) && !find(setting_rows(), key);
}

/// Puts KEY=VALUE among the words of strategy.options, in place of the KEY that was there.
void set_strategy_option(Settings& settings, const std::string& key, const SettingValue& value,
                         const std::string& at) {
  const std::string name = key.substr(kStrategy.size());
  const auto plain = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  if (name.empty() || !std::all_of(name.begin(), name.end(), plain))
    fail(at, printable(key) + " is no name of an option: letters, digits and _ make one");
  const auto* word = std::get_if<std::string>(&value);
  std::string text = word ? *word : to_toml(value);
  if (!word) std::erase_if(text, [](char c) { return c == '[' || c == ']' || c == ' '; });
  if (text.empty() || std::holds_alternative<OtherValue>(value) ||
      text.find_first_of(" \t\n=") != std::string::npos)
    fail(at, printable(key) +
                 " must be a number, a list of numbers or a word without blanks, not " +
                 to_toml(value));
  std::istringstream words(settings.compress.train.strategy.options);
  std::string options;
  for (std::string each; words >> each;)
    if (!each.starts_with(name + "=")) options += each + " ";
  set_row(*find(setting_rows(), kStrategy + "options"), settings, options + name + "=" + text, at,
          kStrategy + "options");
}

/// A text from the command line or the environment as a value of the row's type; what is no such
/// value stays text, and the row refuses it.
SettingValue typed_value(const SettingRow<Settings>& row, std::string text,
                         const std::string& source) {
  const bool quoted = !text.empty() && (text[0] == '"' || text[0] == '\'');
  if (row.type == "number" || row.type == "integer") {
    const SettingValue number = number_text(text);
    return std::holds_alternative<std::monostate>(number) ? SettingValue(text) : number;
  }
  if (row.type == "string" && !quoted) return text;
  // 32,16 is what one types for [32, 16].
  if (row.type.ends_with("s") && (text.empty() || text[0] != '[')) text = "[" + text + "]";
  return parse_value(text, source);
}

void apply_layer_item(Settings& settings, LayerRule& rule, const ConfigItem& item,
                      UnknownKeys& unknown) {
  const auto* row = find(layer_rows(), item.key);
  if (!row) return unknown.add_layer(item.key_at, item.key);
  const std::string key = "layer." + item.key;
  set_row(*row, rule, item.value, item.value_at, key);
  settings.given[key] = item.key_at;
}

void apply_item(Settings& settings, const ConfigItem& item, std::string& target_given,
                UnknownKeys& unknown) {
  const bool is_table = std::holds_alternative<OtherValue>(item.value) &&
                        std::get<OtherValue>(item.value).description == "a table";
  if (item.key == "schema") {
    const auto* number = std::get_if<std::int64_t>(&item.value);
    if (!number || *number != 1)
      fail(item.value_at, "schema must be 1, not " + to_toml(item.value) +
                              "; this file may be written for a newer gbcompress");
    return;
  }
  if (item.key == "layer") fail(item.key_at, "layer must be written as [[layer]] tables");
  if (sections().contains(item.key)) {
    if (!is_table) fail(item.value_at, item.key + " must be a table, not " + to_toml(item.value));
    return;
  }
  if (is_strategy_option(item.key)) {
    settings.given["strategy.options"] = item.key_at;
    return set_strategy_option(settings, item.key, item.value, item.value_at);
  }
  const auto* row = find(setting_rows(), item.key);
  if (!row) return unknown.add(item.key_at, item.key);
  if (section_of(item.key) == "target") {
    if (!target_given.empty())
      fail(item.key_at, item.key + " contradicts " + target_given + "; give one target");
    target_given = item.key;
  }
  set_row(*row, settings, item.value, item.value_at, item.key);
  settings.given[item.key] = item.key_at;
}

/// @param unknown  gets the keys that no setting has
void read_file(Settings& settings, const std::filesystem::path& file, UnknownKeys& unknown) {
  const std::string label = printable(file.string());
  Settings changed = settings;
  std::string text;
  try {
    text = read_text(file, kMaxConfigBytes);
  } catch (const Error& error) {
    if (error.code() != Errc::kLimit) throw;
    throw Error(Errc::kConfig, error.what());
  }
  const ConfigDocument document = parse_config(text, label);
  std::vector<LayerRule> rules(document.layers.size());
  std::string target_given;
  for (const auto& item : document.items) {
    if (item.layer >= 0)
      apply_layer_item(changed, rules[static_cast<std::size_t>(item.layer)], item, unknown);
    else
      apply_item(changed, item, target_given, unknown);
  }
  if (!unknown.empty()) return;
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (rules[i].match.empty()) fail(document.layers[i], "layer.match is missing");
  auto& layers = changed.compress.bottleneck.layers;
  layers.insert(layers.end(), rules.begin(), rules.end());
  settings = std::move(changed);
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return std::string(text);
}

struct Assignment {
  std::string key, value;
};

Assignment parse_assignment(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos || equals == 0)
    fail("`set`", printable(text) + " is not KEY=VALUE");
  return {trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1))};
}

/// For tests, which have little time.
void read_fit_steps(TrainOptions& options) {
  const char* const name = "GBCOMPRESS_FIT_STEPS";
  const char* const given = std::getenv(name);
  if (!given) return;
  const SettingValue value = number_text(given);
  const auto* steps = std::get_if<std::int64_t>(&value);
  if (!steps || *steps < 0 || *steps > 1'000'000'000)
    fail(name, "must be an integer from 0 to 1000000000, not " + printable(given));
  options.fit_steps = *steps;
}

/// "train.mirror was removed; use train.flip" for the variable of that key, or "".
std::string removal_of_variable(const std::string& name) {
  for (const RemovedName& each : removed_names())
    if (environment_name(std::string(each.name)) == name) return removal_of(each.name);
  return "";
}

/// Of the keys of the section that the variable's name begins with.
std::string variable_hint(const std::string& name, const std::string& section) {
  const std::string prefix = environment_name(section) + "_";
  std::vector<std::string> endings;
  for (const auto& row : setting_rows())
    if (section_of(row.key) == section)
      endings.push_back(environment_name(row.key).substr(prefix.size()));
  const std::string best = nearest(name.substr(prefix.size()), endings);
  return best.empty() ? "" : "; did you mean " + prefix + best + "?";
}

bool is_known(const std::string& key) {
  return is_strategy_option(key) || find(setting_rows(), key);
}

template <typename T>
std::vector<SettingInfo> infos(const std::vector<SettingRow<T>>& rows, const T& defaults) {
  std::vector<SettingInfo> result;
  for (const auto& row : rows)
    result.push_back({row.key, row.type, to_toml(row.get(defaults)), row.help + ": " + row.accepts,
                      row.choices});
  return result;
}

}  // namespace

const std::vector<SettingInfo>& setting_table() {
  static const auto table = infos(setting_rows(), Settings());
  return table;
}

const std::vector<SettingInfo>& layer_table() {
  static const auto table = infos(layer_rows(), LayerRule());
  return table;
}

std::string environment_name(const std::string& key) {
  std::string name = kPrefix;
  for (const char c : key)
    name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

Settings::Settings() {
  compress.bottleneck.gnet_optimizer.lr = 1e-2;
  compress.bottleneck.mode = WeightMode::kQuantized;
  compress.choose = {true, true, true, true, true, true, true, true, true, true, true, true, true};
}

void Settings::apply_file(const std::filesystem::path& file) {
  UnknownKeys unknown;
  read_file(*this, file, unknown);
  unknown.throw_if_any();
}

void Settings::apply_below_flags(const std::optional<std::filesystem::path>& file,
                                 const std::vector<std::string>& assignments) {
  UnknownKeys unknown;
  if (file) read_file(*this, *file, unknown);
  for (const std::string& assignment : assignments)
    if (const std::string key = parse_assignment(assignment).key; !is_known(key))
      unknown.add("`set`", key);
  unknown.throw_if_any();
  apply_environment();
  for (const std::string& assignment : assignments) apply_assignment(assignment);
}

void Settings::apply_environment() {
  read_fit_steps(compress.train);
  std::string target_given;
  std::set<std::string> names;
  for (const auto& row : setting_rows()) {
    const std::string name = environment_name(row.key);
    names.insert(name);
    const char* value = std::getenv(name.c_str());
    if (!value) continue;
    if (section_of(row.key) == "target") {
      if (!target_given.empty()) fail(name, "contradicts " + target_given + "; give one target");
      target_given = name;
    }
    apply(row.key, value, name);
  }
  for (char** entry = environ; entry && *entry; ++entry) {
    const char* end = std::strchr(*entry, '=');
    if (!end) continue;
    const std::string name(*entry, static_cast<std::size_t>(end - *entry));
    if (names.contains(name)) continue;
    if (const std::string removal = removal_of_variable(name); !removal.empty())
      fail(name, removal);
    for (const auto& section : sections())
      if (name.starts_with(environment_name(section) + "_"))
        fail(printable(name), "no such setting" + variable_hint(name, section));
  }
}

bool Settings::given_in_call(const std::string& key) const {
  const auto found = given.find(key);
  return found != given.end() && (found->second == "`set`" || found->second.starts_with("-"));
}

void Settings::apply_assignment(std::string_view assignment) {
  const auto [key, value] = parse_assignment(assignment);
  apply(key, value, "`set`");
}

void Settings::apply(const std::string& key, const std::string& toml_value,
                     const std::string& source) {
  if (is_strategy_option(key)) {
    given["strategy.options"] = source;
    const bool word = toml_value.find_first_of("[\"'") != 0;
    return set_strategy_option(
        *this, key, word ? SettingValue(toml_value) : parse_value(toml_value, source), source);
  }
  const auto* row = find(setting_rows(), key);
  if (!row) {
    UnknownKeys unknown;
    unknown.add(source, key);
    unknown.throw_if_any();
  }
  const SettingValue value = typed_value(*row, toml_value, source);
  set_row(*row, *this, value, source, key);
  given[key] = source;
}

}  // namespace gbcompress
