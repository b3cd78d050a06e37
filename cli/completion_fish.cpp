#include <sstream>

#include "completion.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

using Kind = Values::Kind;

std::string fish_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

std::string words_of(const Values& values) {
  std::string text;
  for (const std::string& word : values.words) text += (text.empty() ? "" : " ") + word;
  return fish_quoted(text);
}

/// What offers the values: arguments of `complete`.
std::string offers(const Values& values) {
  std::string text;
  switch (values.kind) {
    case Kind::kChoice:
    case Kind::kBegin:
      return " -a " + words_of(values);
    case Kind::kFile:
      for (const std::string& suffix : values.words)
        text += (text.empty() ? "" : "; ") + ("__fish_complete_suffix ." + suffix);
      return text.empty() ? " -F" : " -k -a " + fish_quoted("(" + text + ")");
    case Kind::kFolder:
      return " -a '(__fish_complete_directories)'";
    case Kind::kSetting:
      return " -a '(__gbcompress_settings)'";
    default:
      return "";
  }
}

void list_option(std::ostream& out, const std::string& condition, const OptionInfo& option) {
  out << "complete -c gbcompress" << condition;
  if (!option.letter.empty()) out << " -s " << option.letter;
  out << " -l " << option.name;
  if (!option.value_name.empty()) {
    // Any file; or a value that may go on as one: mnist:DIR.
    const bool files = option.values.kind == Kind::kBegin ||
                       (option.values.kind == Kind::kFile && option.values.words.empty());
    out << (files ? " -r" : " -x") << offers(option.values);
  }
  out << " -d " << fish_quoted(option.help) << "\n";
}

}  // namespace

std::string fish_completion() {
  std::ostringstream out;
  out << "# fish completion of gbcompress " GBC_VERSION_STRING
         ", made by `gbcompress completion fish`\n\nfunction __gbcompress_settings\n";
  for (const SettingInfo& setting : setting_table()) {
    out << "  printf '%s\\t%s\\n' " << setting.key << "= " << fish_quoted(setting.help) << "\n";
    for (const std::string& choice : setting.choices)
      out << "  echo " << setting.key << "=" << choice << "\n";
  }
  out << "end\n\ncomplete -c gbcompress -f\n";
  for (const OptionInfo& option : program_options())
    list_option(out, " -n __fish_use_subcommand", option);
  for (const OptionWord& word : option_words())
    out << "complete -c gbcompress -n __fish_use_subcommand -a " << word.name << " -d "
        << fish_quoted(word.help) << "\n";
  for (const Verb* verb : all_verbs()) {
    if (verb->hidden) continue;
    for (const std::string& name : names_of(*verb))
      out << "complete -c gbcompress -n __fish_use_subcommand -a " << name << " -d "
          << fish_quoted(verb->summary) << "\n";
    const std::string condition =
        " -n '__fish_seen_subcommand_from " + joined(names_of(*verb), " ") + "'";
    for (const OptionInfo& option : option_table(*verb)) list_option(out, condition, option);
    const Values words = word_values(*verb);
    if (words.kind != Kind::kNone)
      out << "complete -c gbcompress" << condition << offers(words) << "\n";
  }
  return out.str();
}

}  // namespace gbcompress::cli
