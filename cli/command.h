#pragma once
/// What every verb shares: its description, its arguments.

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gbcompress::cli {

/// The arguments of one call, parsed.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map map, std::vector<std::string> words,
            std::vector<std::string> command)
      : map_(std::move(map)), words_(std::move(words)), command_(std::move(command)) {}

  bool has(const std::string& option) const { return map_.count(option) > 0; }
  /// "" where the option was not given.
  std::string text(const std::string& option) const;
  /// Every value of a repeatable option.
  std::vector<std::string> list(const std::string& option) const;
  /// What is no option: "MODEL".
  const std::vector<std::string>& words() const { return words_; }
  /// Everything behind the program's name, as it was given.
  const std::vector<std::string>& command() const { return command_; }

  bool json() const { return has("json"); }
  bool quiet() const { return has("quiet"); }
  bool verbose() const { return has("verbose"); }

 private:
  boost::program_options::variables_map map_;
  std::vector<std::string> words_, command_;
};

/// The value of an option that takes text, shown in the help as `name`.
boost::program_options::typed_value<std::string>* text_value(const char* name);

struct Verb {
  std::string name;
  std::string summary;   ///< one line
  std::string synopsis;  ///< behind the verb's name
  std::string examples;  ///< whole lines
  std::size_t min_words = 0, max_words = 0;
  void (*options)(boost::program_options::options_description& into) = nullptr;
  /// Null: the whole work needs LibTorch, and torch_module.h has it under the verb's name.
  int (*run)(const Arguments& arguments) = nullptr;
  bool hidden = false;
  std::vector<std::string> words = {};  ///< what the first word may be, where it has names
};

const Verb& compress_verb();
const Verb& expand_verb();
const Verb& inspect_verb();
const Verb& compare_verb();
const Verb& eval_verb();
const Verb& plugins_verb();
const Verb& doctor_verb();
const Verb& bench_verb();
const Verb& plan_verb();
const Verb& sweep_verb();
const Verb& completion_verb();
const Verb& man_verb();
const Verb& probe_verb();  ///< what `plugins verify` runs in a process of its own

/// @throws Error(kUsage) with the nearest name where there is no such verb
const Verb& find_verb(const std::string& name);
/// Finds the verb, parses and runs it. @return the exit status
int dispatch(const std::vector<std::string>& arguments);

/// One JSON object to stdout.
void print_json(const nlohmann::ordered_json& object);
/// One line to stderr: "gbcompress: TEXT", or "gbcompress: [rank 2] TEXT" where there are several.
void say(const std::string& text);
/// "50k", "50kB", "1.5MB", "2MiB" or plain bytes. @throws Error(kUsage) naming the option
std::int64_t parse_bytes(const std::string& text, const std::string& option);

}  // namespace gbcompress::cli
