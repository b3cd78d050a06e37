#include "command.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>
#include <sstream>

#include "call_files.h"
#include "gbcompress/error.h"
#include "gbcompress/settings.h"
#include "gbcompress/version.h"
#include "help.h"
#include "torch_module.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

[[noreturn]] void fail_usage(const std::string& what, const std::string& verb) {
  throw Error(Errc::kUsage,
              what + "; see gbcompress " + (verb.empty() ? "" : verb + " ") + "--help");
}

std::string without_dashes(const std::string& option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

/// What to give in place of an unknown option: a setting that ends in its name, else the nearest
/// option. An option of more letters is named beside a setting.
std::string instead_of(const std::string& unknown, const po::options_description& options) {
  const std::string word = without_dashes(unknown);
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  const std::string near = nearest(word, names);
  std::string ending = "." + word;
  std::replace(ending.begin(), ending.end(), '-', '_');
  std::string use;
  if (options.find_nothrow("set", false))
    for (const SettingInfo& setting : setting_table())
      if (setting.key.ends_with(ending))
        use += (use.empty() ? "--set " : " or --set ") + setting.key + "=VALUE";
  if (near.empty()) return use.empty() ? "" : "; use " + use;
  if (use.empty()) return "; did you mean --" + near + "?";
  return near.starts_with(word) ? "; use --" + near + ", or " + use : "; use " + use;
}

struct Parsed {
  po::variables_map map;
  std::vector<std::string> words;
  std::vector<std::string> options;  ///< Call::options
};

Parsed parse(const std::vector<std::string>& tokens, const po::options_description& visible,
             const std::string& verb) {
  po::options_description all;
  all.add(visible);
  all.add_options()("word", po::value<std::vector<std::string>>());
  po::positional_options_description positional;
  positional.add("word", -1);
  Parsed result;
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const po::parsed_options parsed =
        po::command_line_parser(tokens).options(all).positional(positional).style(style).run();
    po::store(parsed, result.map);
    for (const auto& option : parsed.options) {
      const std::string& key = option.string_key;
      if (key != "word" && key != "output" && key != "resume")
        result.options.insert(result.options.end(), option.original_tokens.begin(),
                              option.original_tokens.end());
    }
  } catch (const po::unknown_option& error) {
    const std::string name = printable(error.get_option_name());
    if (const std::string instead = instead_of_removed("option " + without_dashes(name));
        !instead.empty())
      fail_usage(name + " was removed; " + instead, verb);
    fail_usage("unknown option " + name + instead_of(name, visible), verb);
  } catch (const po::multiple_occurrences& error) {
    fail_usage("option " + error.get_option_name() + " was given twice", verb);
  } catch (const po::invalid_command_line_syntax& error) {
    const bool missing = error.kind() == po::invalid_command_line_syntax::missing_parameter ||
                         error.kind() == po::invalid_command_line_syntax::empty_adjacent_parameter;
    const std::string name = printable(error.get_option_name());
    fail_usage(missing ? "option " + name + " needs a value" : "option " + name + " takes no value",
               verb);
  } catch (const po::error& error) {
    fail_usage(printable(error.what()), verb);
  }
  if (result.map.count("word")) result.words = result.map["word"].as<std::vector<std::string>>();
  return result;
}

/// Position of the verb: the first word that is neither an option nor one's value.
std::size_t verb_position(const std::vector<std::string>& arguments) {
  std::size_t i = 0;
  for (; i < arguments.size(); ++i) {
    if (arguments[i] == "--plugin") {
      ++i;
    } else if (arguments[i].empty() || arguments[i][0] != '-') {
      break;
    }
  }
  return std::min(i, arguments.size());
}

/// "inspect FILE --plan" for a word that is an option without a value; "" where it is none.
std::string verb_with_flag(const std::string& word) {
  for (const Verb* verb : all_verbs())
    for (const OptionInfo& option : option_table(*verb))
      if (!verb->hidden && option.name == word && option.value_name.empty())
        return verb->name + " " + verb->synopsis.substr(0, verb->synopsis.find_first_of(" .|")) +
               " --" + word;
  return "";
}

}  // namespace

const Verb& find_verb(const std::string& name) {
  for (const Verb* verb : all_verbs())
    for (const std::string& known : names_of(*verb))
      if (known == name) return *verb;
  if (const std::string use = verb_with_flag(name); !use.empty())
    throw Error(Errc::kUsage, "unknown verb " + printable(name) + "; use gbcompress " + use);
  fail_usage("unknown verb " + printable(name) + did_you_mean(name, first_words()), "");
}

namespace {

/// Words that other programs know stand for options: "version", "help", "help VERB".
std::vector<std::string> with_options_for_words(std::vector<std::string> arguments) {
  const std::size_t at = verb_position(arguments);
  if (at == arguments.size()) return arguments;
  const auto word = arguments.begin() + static_cast<std::ptrdiff_t>(at);
  if (*word == "version") *word = "--version";
  if (*word != "help") return arguments;
  arguments.erase(word);
  arguments.emplace_back("--help");
  return arguments;
}

int without_verb(const std::vector<std::string>& arguments, po::options_description& options) {
  options.add_options()("version", "print the version");
  const Parsed parsed = parse(arguments, options, "");
  if (parsed.map.count("version")) {
    std::cout << "gbcompress " GBC_VERSION_STRING "\n";
    return 0;
  }
  if (!parsed.map.count("help")) fail_usage("no verb was given", "");
  print_general_help(std::cout);
  return 0;
}

void check_words(const Verb& verb, const std::vector<std::string>& words) {
  if (words.size() < verb.min_words) {
    // The words of the synopsis before its options: "A B [--data KIND:PATH]".
    std::istringstream synopsis(verb.synopsis);
    std::string missing;
    for (std::size_t i = 0; i < verb.min_words; ++i) {
      std::string word;
      synopsis >> word;
      if (i >= words.size()) missing += (missing.empty() ? "" : " and ") + word;
    }
    fail_usage(verb.name + " needs " + missing, verb.name);
  }
  if (words.size() > verb.max_words)
    fail_usage("there is one argument too many: " + printable(words[verb.max_words]), verb.name);
}

}  // namespace

int dispatch(const std::string& program, const std::vector<std::string>& given) {
  const std::vector<std::string> arguments = with_options_for_words(given);
  const std::size_t at = verb_position(arguments);
  po::options_description options = common_options();
  if (at == arguments.size()) return without_verb(arguments, options);
  const std::vector<std::string> before(arguments.begin(),
                                        arguments.begin() + static_cast<std::ptrdiff_t>(at));
  parse(before, options, "");
  const Verb& verb = find_verb(arguments[at]);
  const po::options_description own = own_options(verb);
  po::options_description visible;
  if (!own.options().empty()) visible.add(own);
  visible.add(options);

  std::vector<std::string> tokens = before;
  tokens.insert(tokens.end(), arguments.begin() + static_cast<std::ptrdiff_t>(at) + 1,
                arguments.end());
  Parsed parsed = parse(tokens, visible, verb.name);
  if (parsed.map.count("help")) {
    print_help(std::cout, verb, parsed.map.count("verbose") > 0);
    return 0;
  }
  check_words(verb, parsed.words);
  const Values words = word_values(verb);
  const Arguments call(std::move(parsed.map), std::move(parsed.words),
                       {.program = program,
                        .arguments = given,
                        .verb = verb.name,
                        .options = std::move(parsed.options),
                        .suffixes = words.words});
  const Arguments ready = with_files(call, words.kind == Values::Kind::kFile, verb.streams);
  check_outputs(ready);
  return verb.run ? verb.run(ready) : run_with_torch(verb.name, ready);
}

}  // namespace gbcompress::cli
