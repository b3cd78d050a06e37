#include <sstream>

#include "completion.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

using Kind = Values::Kind;

std::string assignments(const Values& values) {
  switch (values.kind) {
    case Kind::kChoice:
      return "kind=choice list='" + joined(values.words, " ") + "'";
    case Kind::kBegin:
      return "kind=begin list='" + joined(values.words, " ") + "'";
    case Kind::kFile:
      return "kind=file list='" + joined(values.words, "|") + "'";
    case Kind::kFolder:
      return "kind=folder";
    case Kind::kSetting:
      return "kind=setting";
    default:
      return "kind=text";
  }
}

std::string flags(const std::vector<OptionInfo>& options) {
  std::string text;
  for (const OptionInfo& option : options)
    text += " --" + option.name + (option.letter.empty() ? "" : " -" + option.letter);
  return text.substr(1);
}

void list_verb_for_bash(std::ostream& out, const Verb& verb) {
  const std::vector<OptionInfo> options = option_table(verb);
  out << "    " << joined(names_of(verb), "|") << ")\n      flags='" << flags(options) << "'\n"
      << "      " << assignments(word_values(verb)) << "\n      case $2 in\n";
  for (const OptionInfo& option : options)
    if (!option.value_name.empty())
      out << "        --" << option.name << (option.letter.empty() ? "" : "|-" + option.letter)
          << ") given=1 " << assignments(option.values) << " ;;\n";
  out << "      esac ;;\n";
}

/// What follows the tables.
constexpr const char* kEngine = R"sh(
_gbcompress() {
  local line=${COMP_LINE:0:COMP_POINT} verb= given= flags= kind= list= before= i
  local -a words
  read -r -a words <<< "$line"
  [[ $line == *[[:space:]] ]] && words+=('')
  local n=$((${#words[@]} - 1))
  local current=${words[n]} option=${words[n-1]}
  for ((i = 1; i < n; ++i)); do
    case ${words[i]} in
      --plugin) ((++i)) ;;
      -*) ;;
      *) verb=${words[i]}; break ;;
    esac
  done
  COMPREPLY=()
  local value=$current
  if [[ $current == --*=* ]]; then
    option=${current%%=*} value=${current#*=} before=$option=
  fi
  _gbcompress_of "$verb" "$option"
  if [[ -z $given && -z $before && $value == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$value")
    return
  fi
  # The second word behind a verb is a file, whatever the first was.
  [[ -z $given && $kind == choice && -n $verb && $option != "$verb" ]] && kind=file list=
  case $kind in
    begin|choice)
      if [[ $kind == begin && $value == *:* ]]; then
        before+=${value%%:*}: value=${value#*:}
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -- "$value")
      else
        mapfile -t COMPREPLY < <(compgen -W "$list" -- "$value")
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *: ]] && compopt -o nospace
      fi ;;
    file)
      compopt -o filenames
      mapfile -t COMPREPLY < <(
        compgen -d -- "$value"
        compgen -f -- "$value" | while IFS= read -r name; do
          [[ -d $name ]] && continue
          [[ -z $list || "|$list|" == *"|${name##*.}|"* ]] && printf '%s\n' "$name"
        done) ;;
    folder)
      compopt -o filenames
      mapfile -t COMPREPLY < <(compgen -d -- "$value") ;;
    setting)
      if [[ $value == *=* ]]; then
        before+=${value%%=*}=
        mapfile -t COMPREPLY < <(compgen -W "$(_gbcompress_values "${value%%=*}")" -- "${value#*=}")
      else
        compopt -o nospace
        mapfile -t COMPREPLY < <(compgen -S = -W "$(_gbcompress_keys)" -- "$value")
      fi ;;
  esac
  # Readline replaces what stands behind the last of its word breaks.
  local kept=$before mark
  for mark in = :; do
    [[ $COMP_WORDBREAKS == *"$mark"* ]] && kept=${kept##*"$mark"}
  done
  ((${#COMPREPLY[@]})) && COMPREPLY=("${COMPREPLY[@]/#/$kept}")
}
complete -F _gbcompress gbcompress
)sh";

}  // namespace

std::string bash_completion() {
  std::ostringstream out;
  const std::vector<std::string> names = first_words();
  std::vector<std::string> keys;
  out << "# bash completion of gbcompress " GBC_VERSION_STRING
         ", made by `gbcompress completion bash`\n\n_gbcompress_of() {\n  case $1 in\n"
      << "    '') flags='" << flags(program_options()) << "' kind=choice list='"
      << joined(names, " ") << "' ;;\n";
  for (const Verb* verb : all_verbs())
    if (!verb->hidden) list_verb_for_bash(out, *verb);
  out << "  esac\n}\n\n_gbcompress_values() {\n  case $1 in\n";
  for (const SettingInfo& setting : setting_table()) {
    keys.push_back(setting.key);
    if (!setting.choices.empty())
      out << "    " << setting.key << ") echo '" << joined(setting.choices, " ") << "' ;;\n";
  }
  out << "  esac\n}\n\n_gbcompress_keys() {\n  echo '" << joined(keys, " ") << "'\n}\n" << kEngine;
  return out.str();
}

}  // namespace gbcompress::cli
