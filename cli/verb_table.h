#pragma once
/// The one table of verbs and options: what `--help` prints, shells complete and manual pages list.

#include <boost/program_options/options_description.hpp>
#include <string>
#include <vector>

#include "command.h"

namespace gbcompress::cli {

/// Every verb, hidden ones too, in the order of the help.
const std::vector<const Verb*>& all_verbs();
/// A verb's name, then its aliases.
std::vector<std::string> names_of(const Verb& verb);

/// A word in the place of a verb that stands for an option: "help", "version".
struct OptionWord {
  std::string name, help;
};
const std::vector<OptionWord>& option_words();
/// Whatever the first word may be: names and aliases of verbs that are not hidden, and
/// option_words().
std::vector<std::string> first_words();
/// --help, --json and so on: what every verb takes.
boost::program_options::options_description common_options();
/// What a verb alone takes.
boost::program_options::options_description own_options(const Verb& verb);

/// What may stand for a value, or for a word that is no option.
struct Values {
  enum class Kind {
    kNone,     ///< the option takes no value
    kText,     ///< anything: a number, a name
    kChoice,   ///< one of `words`
    kBegin,    ///< begins with one of `words`: "mnist:", "mlp:"
    kFile,     ///< a file, or a folder on the way to it, of the suffixes `words` (none: any)
    kFolder,   ///< a folder
    kSetting,  ///< KEY=VALUE
  };
  Kind kind = Kind::kText;
  std::vector<std::string> words;
};

struct OptionInfo {
  std::string name;        ///< "output"
  std::string letter;      ///< "o", or ""
  std::string value_name;  ///< "FILE", or "" where it takes none
  std::string help;
  bool repeatable = false;
  Values values;
};

/// Names of this program; none holds a blank or a quote.
std::string joined(const std::vector<std::string>& words, const char* between);

/// A verb's own options, then the common ones.
std::vector<OptionInfo> option_table(const Verb& verb);
/// What --help and --version of the program itself are.
std::vector<OptionInfo> program_options();
/// What the verb's words are: its choices for the first, else files by kind.
Values word_values(const Verb& verb);

}  // namespace gbcompress::cli
