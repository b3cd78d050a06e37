#include <sstream>

#include "completion.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

using Kind = Values::Kind;

/// Between single quotes of the shell.
std::string zsh_quoted(const std::string& text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// As a message of _arguments, where brackets and colons have a meaning.
std::string message(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':' || c == '\\') result += '\\';
    result += c;
  }
  return result;
}

std::string action(const Values& values) {
  switch (values.kind) {
    case Kind::kChoice:
      return "(" + joined(values.words, " ") + ")";
    case Kind::kBegin:
      return "{_gbcompress_begin " + message(joined(values.words, " ")) + "}";
    case Kind::kFile:
      if (values.words.empty()) return "_files";
      // One suffix in parentheses would be read as a qualifier of the pattern.
      return values.words.size() == 1 ? "_files -g \"*." + values.words[0] + "\""
                                      : "_files -g \"*.(" + joined(values.words, "|") + ")\"";
    case Kind::kFolder:
      return "_files -/";
    case Kind::kSetting:
      return "_gbcompress_setting";
    default:
      return "";
  }
}

void list_option(std::ostream& out, const OptionInfo& option) {
  const std::string name = "--" + option.name, letter = "-" + option.letter;
  std::string spec = "[" + message(option.help) + "]";
  const bool value = !option.value_name.empty();
  if (value) spec += ":" + message(option.value_name) + ":" + action(option.values);
  const char* stars = option.repeatable ? "*" : "";
  // With a value behind = or as the next word.
  const std::string ending = value ? "=" : "";
  if (option.letter.empty()) {
    out << "        " << zsh_quoted(stars + name + ending + spec) << " \\\n";
    return;
  }
  const std::string excluded = option.repeatable ? "*" : "(" + letter + " " + name + ")";
  out << "        " << zsh_quoted(excluded) << "{" << letter << (value ? "+" : "") << "," << name
      << ending << "}" << zsh_quoted(spec) << " \\\n";
}

void list_verb_for_zsh(std::ostream& out, const Verb& verb) {
  out << "    " << joined(names_of(verb), "|") << ")\n      _arguments -s -S \\\n";
  for (const OptionInfo& option : option_table(verb)) list_option(out, option);
  const Values words = word_values(verb);
  if (words.kind == Kind::kChoice)
    out << "        " << zsh_quoted("1: :" + action(words)) << " \\\n";
  if (words.kind != Kind::kNone)
    out << "        "
        << zsh_quoted(words.kind == Kind::kChoice ? "*: :_files" : "*: :" + action(words))
        << " \\\n";
  out << "        && return ;;\n";
}

constexpr const char* kHelpers = R"sh(
# Names that something may follow: mnist:DIR, mlp:784-10.
_gbcompress_begin() {
  if compset -P '*:'; then
    _files
  else
    compadd -S '' -- ${(M)@:#*:}
    compadd -- ${@:#*:}
  fi
}
)sh";

}  // namespace

std::string zsh_completion() {
  std::ostringstream out;
  out << "#compdef gbcompress\n# zsh completion of gbcompress " GBC_VERSION_STRING
         ", made by `gbcompress completion zsh`\n"
      << kHelpers << "\n_gbcompress_setting() {\n  if compset -P '*='; then\n"
      << "    case ${${IPREFIX%=}##*=} in\n";
  std::string keys;
  for (const SettingInfo& setting : setting_table()) {
    keys += " " + setting.key;
    if (!setting.choices.empty())
      out << "      " << setting.key << ") compadd -- " << joined(setting.choices, " ") << " ;;\n";
  }
  out << "    esac\n  else\n    compadd -S = --" << keys << "\n  fi\n}\n\n_gbcompress() {\n"
      << "  local curcontext=$curcontext state line\n  typeset -A opt_args\n"
      << "  local -a verbs=(\n";
  for (const Verb* verb : all_verbs())
    if (!verb->hidden)
      for (const std::string& name : names_of(*verb))
        out << "    " << zsh_quoted(name + ":" + verb->summary) << "\n";
  for (const OptionWord& word : option_words())
    out << "    " << zsh_quoted(word.name + ":" + word.help) << "\n";
  out << "  )\n  _arguments -C \\\n";
  for (const OptionInfo& option : program_options()) list_option(out, option);
  out << "        '1: :->verb' '*:: :->rest' && return\n  case $state in\n"
      << "    verb) _describe verb verbs && return ;;\n    rest) ;;\n    *) return 1 ;;\n  esac\n"
      << "  case $words[1] in\n";
  for (const Verb* verb : all_verbs())
    if (!verb->hidden) list_verb_for_zsh(out, *verb);
  out << "  esac\n}\n\n"
      << "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n  _gbcompress \"$@\"\n"
      << "else\n  compdef _gbcompress gbcompress\nfi\n";
  return out.str();
}

}  // namespace gbcompress::cli
