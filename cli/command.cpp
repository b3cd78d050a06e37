#include "command.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <iostream>

#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"
#include "torch_module.h"
#include "verb_table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

[[noreturn]] void fail_usage(const std::string& what, const std::string& verb) {
  throw Error(Errc::kUsage,
              what + "; see gbcompress " + (verb.empty() ? "" : verb + " ") + "--help");
}

void print_general_help() {
  std::cout << "Compresses neural networks through a genomic bottleneck.\n\n"
               "  gbcompress compress model.safetensors --arch lenet-300-100 --data mnist:DIR"
               " --ratio 20 -o model.gbz\n"
               "  gbcompress expand model.gbz -o model.safetensors\n\n"
               "Verbs:\n";
  for (const Verb* verb : all_verbs()) {
    if (verb->hidden) continue;
    std::cout << "  " << verb->name << std::string(12 - verb->name.size(), ' ') << verb->summary
              << "\n";
  }
  std::cout << "\n"
            << common_options() << "  --version             say the version\n\n"
            << "gbcompress VERB --help says more.\n";
}

void print_help(const Verb& verb, const po::options_description& options, bool verbose) {
  std::cout << verb.summary << "\n\nExamples:\n"
            << verb.examples << "\nUsage: gbcompress " << verb.name << " " << verb.synopsis
            << "\n\n"
            << options;
  if (!options.find_nothrow("set", false)) return;
  if (!verbose) {
    std::cout << "\ngbcompress " << verb.name << " --help -v lists the settings.\n";
    return;
  }
  std::cout << "\nSettings (--set KEY=VALUE, a file's [section], or GBCOMPRESS_SECTION_KEY):\n";
  for (const auto& info : setting_table()) {
    std::cout << "  " << info.key << " = "
              << (info.default_value.empty() ? "(unset)" : info.default_value) << "\n      "
              << info.help << "\n";
  }
}

/// Every name with its dashes, for the nearest one.
std::vector<std::string> option_names(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back("--" + option->long_name());
  return names;
}

struct Parsed {
  po::variables_map map;
  std::vector<std::string> words;
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
    po::store(
        po::command_line_parser(tokens).options(all).positional(positional).style(style).run(),
        result.map);
  } catch (const po::unknown_option& error) {
    const std::string name = printable(error.get_option_name());
    fail_usage("unknown option " + name + did_you_mean(name, option_names(visible)), verb);
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

}  // namespace

const Verb& find_verb(const std::string& name) {
  std::vector<std::string> names;
  for (const Verb* verb : all_verbs()) {
    if (verb->name == name) return *verb;
    if (!verb->hidden) names.push_back(verb->name);
  }
  fail_usage("unknown verb " + printable(name) + did_you_mean(name, names), "");
}

int dispatch(const std::vector<std::string>& arguments) {
  const std::size_t at = verb_position(arguments);
  const bool has_verb = at < arguments.size();
  po::options_description options = common_options();
  if (!has_verb) {
    options.add_options()("version", "say the version");
    const Parsed parsed = parse(arguments, options, "");
    if (parsed.map.count("version")) {
      std::cout << "gbcompress " GBC_VERSION_STRING "\n";
      return 0;
    }
    if (!parsed.map.count("help")) fail_usage("no verb was given", "");
    print_general_help();
    return 0;
  }
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
    print_help(verb, visible, parsed.map.count("verbose") > 0);
    return 0;
  }
  if (parsed.words.size() < verb.min_words)
    fail_usage(verb.name + " needs " + verb.synopsis.substr(0, verb.synopsis.find(' ')), verb.name);
  if (parsed.words.size() > verb.max_words)
    fail_usage("there is one argument too many: " + printable(parsed.words[verb.max_words]),
               verb.name);
  const Arguments given(std::move(parsed.map), std::move(parsed.words), arguments);
  return verb.run ? verb.run(given) : run_with_torch(verb.name, given);
}

}  // namespace gbcompress::cli
