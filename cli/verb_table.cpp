#include "verb_table.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <map>

#include "gbcompress/decode.h"
#include "gbcompress/options.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

const std::vector<const Verb*>& all_verbs() {
  static const std::vector<const Verb*> verbs = {
      &compress_verb(), &expand_verb(),     &mount_verb(), &inspect_verb(), &compare_verb(),
      &rebase_verb(),   &eval_verb(),       &sweep_verb(), &bench_verb(),   &plugins_verb(),
      &doctor_verb(),   &completion_verb(), &man_verb(),   &probe_verb()};
  return verbs;
}

std::vector<std::string> names_of(const Verb& verb) {
  std::vector<std::string> names = {verb.name};
  names.insert(names.end(), verb.aliases.begin(), verb.aliases.end());
  return names;
}

const std::vector<OptionWord>& option_words() {
  static const std::vector<OptionWord> words = {
      {"help", "Say how a verb is used: help VERB, as VERB --help."},
      {"version", "Say the version, as --version."}};
  return words;
}

std::vector<std::string> first_words() {
  std::vector<std::string> words;
  for (const Verb* verb : all_verbs()) {
    if (verb->hidden) continue;
    const std::vector<std::string> names = names_of(*verb);
    words.insert(words.end(), names.begin(), names.end());
  }
  for (const OptionWord& word : option_words()) words.push_back(word.name);
  return words;
}

po::options_description common_options() {
  po::options_description options("Everywhere");
  auto add = options.add_options();
  add("help,h", "print this help; with -v the settings too");
  add("json", "print one JSON object, also for errors");
  add("quiet,q", "print no progress and no warnings");
  add("verbose,v", "print details where there are more: every tensor, the digest");
  add("plugin", po::value<std::vector<std::string>>()->value_name("FILE"),
      "load a plugin: layer types, strategies, architectures; repeatable");
  return options;
}

po::options_description own_options(const Verb& verb) {
  po::options_description own("Options");
  if (verb.options) verb.options(own);
  return own;
}

namespace {

using Kind = Values::Kind;

const std::vector<std::string> kModels = {"safetensors", "pt",   "pth", "bin",  "ckpt",
                                          "pt2",         "json", "tar", "onnx", "gguf"};

std::vector<std::string> with_artifacts() {
  std::vector<std::string> all = kModels;
  all.push_back("gbz");
  return all;
}

/// The names that a setting accepts.
Values choices_of(const std::string& key) {
  for (const SettingInfo& setting : setting_table())
    if (setting.key == key) return {Kind::kChoice, setting.choices};
  return {};
}

/// Options whose values have names of their own.
const std::map<std::string, Values>& named_values() {
  static const std::map<std::string, Values> values = {
      {"arch", {Kind::kBegin, layout_names()}},
      {"mode", choices_of("weights.mode")},
      {"strategy", {Kind::kBegin, {"backprop"}}},
      {"keep", {Kind::kChoice, {"all"}}},
      {"kernel", {Kind::kChoice, {"fused", "reference"}}},
      {"isa", {Kind::kChoice, {"AVX2", "SSE4"}}},
      {"shape",
       {Kind::kBegin, {"mnist-mlp", "gpt2-block", "llama-block", "resnet20", "pnas-layer"}}},
      {"config", {Kind::kFile, {"toml"}}},
      {"plugin", {Kind::kFile, {"so"}}},
      {"model", {Kind::kFile, kModels}},
      {"against", {Kind::kFile, kModels}},
  };
  return values;
}

Values values_of(const std::string& option, const std::string& value_name) {
  if (value_name.empty()) return {Kind::kNone, {}};
  const auto named = named_values().find(option);
  if (named != named_values().end()) return named->second;
  if (value_name == "KIND:PATH")
    return {Kind::kBegin, {"mnist:", "cifar10:", "text:", "tensors:", "features:", "digits"}};
  if (value_name == "KEY=VALUE") return {Kind::kSetting, {}};
  if (value_name == "DIR" || value_name == "FOLDER") return {Kind::kFolder, {}};
  if (value_name.starts_with("FILE")) return {Kind::kFile, {}};
  return {};
}

OptionInfo info_of(const po::option_description& option) {
  OptionInfo info{.name = option.long_name(), .help = option.description()};
  const std::string letter =
      option.canonical_display_name(po::command_line_style::allow_dash_for_short);
  if (letter.size() == 2 && letter[0] == '-' && letter[1] != '-') info.letter = letter.substr(1);
  const auto semantic = option.semantic();
  if (semantic->max_tokens() > 0) {
    const auto many =
        dynamic_cast<const po::typed_value<std::vector<std::string>>*>(semantic.get());
    info.repeatable = many != nullptr;
    info.value_name = semantic->name();
  }
  info.values = values_of(info.name, info.value_name);
  return info;
}

void append(const po::options_description& options, std::vector<OptionInfo>& to) {
  for (const auto& option : options.options()) to.push_back(info_of(*option));
}

}  // namespace

std::string joined(const std::vector<std::string>& words, const char* between) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : between) + word;
  return text;
}

std::vector<OptionInfo> option_table(const Verb& verb) {
  std::vector<OptionInfo> table;
  append(own_options(verb), table);
  append(common_options(), table);
  return table;
}

std::vector<OptionInfo> program_options() {
  std::vector<OptionInfo> table;
  append(common_options(), table);
  table.push_back({.name = "version", .help = "print the version", .values = {Kind::kNone, {}}});
  return table;
}

Values word_values(const Verb& verb) {
  if (verb.max_words == 0) return {Kind::kNone, {}};
  if (!verb.words.empty()) return {Kind::kChoice, verb.words};
  if (verb.synopsis.starts_with("IN.gbz")) return {Kind::kFile, {"gbz"}};
  if (verb.synopsis.starts_with("MODEL")) return {Kind::kFile, kModels};
  return {Kind::kFile, with_artifacts()};
}

}  // namespace gbcompress::cli
