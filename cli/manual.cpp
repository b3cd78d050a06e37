#include "manual.h"

#include <algorithm>
#include <cctype>
#include <sstream>

#include "exit_status.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace {

/// Text as man(7) takes it: hyphens that can be copied, no line that begins with a control
/// character.
std::string text(const std::string& plain) {
  std::string result;
  bool begins = true;
  for (const char c : plain) {
    if (begins && (c == '.' || c == '\'')) result += "\\&";
    if (c == '\\')
      result += "\\e";
    else if (c == '-')
      result += "\\-";
    else
      result += c;
    begins = c == '\n';
  }
  return result;
}

std::string bold(const std::string& plain) { return "\\fB" + text(plain) + "\\fR"; }
std::string italic(const std::string& plain) { return "\\fI" + text(plain) + "\\fR"; }

std::string joined_bold(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result += (result.empty() ? "" : ", ") + bold(name);
  return result;
}

/// "Compress a model file into a .gbz." as the line behind a name: no capital, no full stop.
std::string one_line(std::string summary) {
  if (summary.size() > 1 && std::islower(static_cast<unsigned char>(summary[1])))
    summary[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(summary[0])));
  if (!summary.empty() && summary.back() == '.') summary.pop_back();
  return summary;
}

void heading(std::ostream& out, const std::string& name, const std::string& summary) {
  std::string upper = name;
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out << ".\\\" Made by `gbcompress man`; edits are lost.\n.TH " << text(upper)
      << " 1 \"\" \"gbcompress " GBC_VERSION_STRING "\" \"gbcompress manual\"\n.SH NAME\n"
      << text(name) << " \\- " << text(one_line(summary)) << "\n";
}

void list_option(std::ostream& out, const OptionInfo& option) {
  out << ".TP\n";
  if (!option.letter.empty()) out << bold("-" + option.letter) << ", ";
  out << bold("--" + option.name);
  if (!option.value_name.empty()) out << " " << italic(option.value_name);
  const bool repeat = option.repeatable && !option.help.ends_with("needed");
  out << "\n" << text(option.help) << (repeat ? "; as often as needed" : "");
  if (option.values.kind == Values::Kind::kChoice && !option.values.words.empty()) {
    out << ".\nOne of";
    for (const std::string& word : option.values.words) out << " " << bold(word);
  }
  out << ".\n";
}

void list_settings(std::ostream& out, const std::vector<SettingInfo>& table) {
  for (const SettingInfo& setting : table) {
    out << ".TP\n" << bold(setting.key);
    if (!setting.default_value.empty()) out << " = " << text(setting.default_value);
    out << "\n" << text(setting.help) << ".\n";
  }
}

void list_statuses(std::ostream& out) {
  const std::pair<int, const char*> statuses[] = {
      {kDone, "done"},
      {kFailed, "failed for another reason than the input: no memory, a full disk"},
      {kUsageStatus, "usage: arguments, settings, an output that exists or is an input"},
      {kBadInput, "an input file is missing, damaged, unknown, too large, or does not fit"},
      {kTargetMissed, "the file is written, but exceeds the target"},
      {kPluginStatus, "a plugin is refused or missing"}};
  out << ".SH EXIT STATUS\n";
  for (const auto& [status, meaning] : statuses)
    out << ".TP\n" << status << "\n" << text(meaning) << ".\n";
  out << ".TP\n130, 143\nstopped by SIGINT or SIGTERM.\n";
}

}  // namespace

std::string manual() {
  std::ostringstream out;
  heading(out, "gbcompress", "compresses neural networks through a genomic bottleneck");
  out << ".SH SYNOPSIS\n"
      << bold("gbcompress") << " " << italic("VERB") << " [options]\n.SH VERBS\n";
  for (const Verb* verb : all_verbs())
    if (!verb->hidden)
      out << ".TP\n"
          << joined_bold(names_of(*verb)) << "\n"
          << text(verb->summary) << "\nSee " << bold("gbcompress-" + verb->name) << "(1).\n";
  for (const OptionWord& word : option_words())
    out << ".TP\n" << bold(word.name) << "\n" << text(word.help) << "\n";
  out << ".SH OPTIONS\n";
  for (const OptionInfo& option : program_options()) list_option(out, option);
  out << ".SH SETTINGS\nGiven by " << bold("--set") << " " << italic("KEY=VALUE")
      << ", in a TOML file that " << bold("--config")
      << " names, or as GBCOMPRESS_SECTION_KEY in the environment.\n";
  list_settings(out, setting_table());
  out << ".SS Rules by layer\nKeys of a [[layer]] table in that file.\n";
  list_settings(out, layer_table());
  list_statuses(out);
  return out.str();
}

std::string manual(const Verb& verb) {
  std::ostringstream out;
  heading(out, "gbcompress-" + verb.name, verb.summary);
  out << ".SH SYNOPSIS\n"
      << bold("gbcompress " + verb.name) << " " << text(verb.synopsis) << "\n.SH DESCRIPTION\n"
      << text(verb.summary) << "\n.SH OPTIONS\n";
  bool settings = false;
  for (const OptionInfo& option : option_table(verb)) {
    list_option(out, option);
    settings = settings || option.values.kind == Values::Kind::kSetting;
  }
  if (settings)
    out << ".PP\nThe settings and their values are in " << bold("gbcompress") << "(1).\n";
  out << ".SH EXAMPLES\n.nf\n" << text(verb.examples) << ".fi\n";
  out << ".SH SEE ALSO\n" << bold("gbcompress") << "(1)\n";
  return out.str();
}

}  // namespace gbcompress::cli
