#include "help.h"

#include <algorithm>
#include <ostream>
#include <sstream>

#include "gbcompress/options.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

constexpr std::size_t kColumns = 80, kTextAt = 26;

struct Group {
  const char* title;
  std::vector<std::string> names;
};

/// Options in the order of the help: the usual ones first, what no group names last.
const std::vector<Group>& groups() {
  static const std::vector<Group> all = {
      {"Target",
       {"output", "ratio", "max-bytes", "bits", "max-error", "max-drop", "lossless", "lambdas",
        "ratios", "errors", "mode", "base"}},
      {"Data",
       {"data", "statistics", "arch", "epochs", "effort", "minutes", "seed", "from-scratch",
        "strategy"}},
      {"Other",
       {"help", "quiet", "verbose", "json", "dry-run", "force", "report", "config", "set", "part",
        "keep", "plugin"}}};
  return all;
}

bool holds(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// Words of the text in lines from column kTextAt on; the first line is begun.
void wrap(std::ostream& out, const std::string& text, std::size_t column) {
  std::istringstream words(text);
  const std::string indent(kTextAt, ' ');
  bool first = true;
  for (std::string word; words >> word;) {
    if (!first && column + 1 + word.size() > kColumns) {
      out << "\n" << indent;
      column = kTextAt;
      first = true;
    }
    out << (first ? "" : " ") << word;
    column += word.size() + (first ? 0 : 1);
    first = false;
  }
  out << "\n";
}

void print_option(std::ostream& out, const OptionInfo& option) {
  std::string left = option.letter.empty() ? "      " : "  -" + option.letter + ", ";
  left += "--" + option.name;
  if (!option.value_name.empty()) left += " " + option.value_name;
  out << left;
  if (left.size() + 2 > kTextAt) {
    out << "\n" << std::string(kTextAt, ' ');
  } else {
    out << std::string(kTextAt - left.size(), ' ');
  }
  wrap(out, option.help, kTextAt);
}

void print_group(std::ostream& out, const std::string& title,
                 const std::vector<const OptionInfo*>& options) {
  if (options.empty()) return;
  out << "\n" << title << ":\n";
  for (const OptionInfo* option : options) print_option(out, *option);
}

void print_options(std::ostream& out, const std::vector<OptionInfo>& table) {
  std::vector<const OptionInfo*> found;
  std::vector<std::string> placed;
  const bool grouped = std::any_of(table.begin(), table.end(),
                                   [](const OptionInfo& each) { return each.name == "epochs"; });
  if (!grouped) {
    for (const OptionInfo& option : table) found.push_back(&option);
    return print_group(out, "Options", found);
  }
  for (const Group& group : groups()) {
    found.clear();
    for (const std::string& name : group.names)
      for (const OptionInfo& option : table)
        if (option.name == name) found.push_back(&option);
    placed.insert(placed.end(), group.names.begin(), group.names.end());
    if (&group != &groups().back()) {
      print_group(out, group.title, found);
      continue;
    }
    for (const OptionInfo& option : table)
      if (!holds(placed, option.name)) found.push_back(&option);
    print_group(out, group.title, found);
  }
}

}  // namespace

void print_general_help(std::ostream& out) {
  out << "Usage: gbcompress VERB [options]\n\n"
         "Compresses neural networks.\n\n"
         "Examples:\n"
         "  gbcompress compress model.safetensors --ratio 8 -o model.gbz\n"
         "  gbcompress expand model.gbz -o model.safetensors\n\n"
         "Verbs:\n";
  for (const Verb* verb : all_verbs()) {
    if (verb->hidden) continue;
    out << "  " << verb->name << std::string(12 - std::min<std::size_t>(11, verb->name.size()), ' ')
        << verb->summary << "\n";
  }
  out << "\nOther names:";
  const char* between = " ";
  for (const Verb* verb : all_verbs())
    for (const std::string& alias : verb->aliases) {
      out << between << alias << " (" << verb->name << ")";
      between = ", ";
    }
  for (const OptionWord& word : option_words()) {
    out << between << word.name;
    between = ", ";
  }
  out << "\n";
  print_options(out, program_options());
  out << "\nHelp of a verb: gbcompress VERB --help\n";
}

void print_help(std::ostream& out, const Verb& verb, bool settings) {
  out << "Usage: gbcompress " << verb.name << " " << verb.synopsis << "\n\n"
      << verb.summary << "\n\nExamples:\n"
      << verb.examples;
  const std::vector<OptionInfo> table = option_table(verb);
  print_options(out, table);
  const bool has_settings = std::any_of(table.begin(), table.end(), [](const OptionInfo& each) {
    return each.values.kind == Values::Kind::kSetting;
  });
  if (!has_settings) return;
  if (!settings) {
    out << "\nAll settings: gbcompress " << verb.name << " --help -v\n";
    return;
  }
  out << "\nSettings (--set KEY=VALUE, a file's [section], or GBCOMPRESS_SECTION_KEY):\n";
  for (const auto& info : setting_table()) {
    out << "  " << info.key << " = "
        << (info.default_value.empty() ? "(unset)" : info.default_value) << "\n"
        << std::string(kTextAt, ' ');
    wrap(out, info.help, kTextAt);
  }
}

}  // namespace gbcompress::cli
