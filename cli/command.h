#pragma once
/// What every verb shares: its description, its arguments.

#include <boost/program_options/options_description.hpp>
#include <boost/program_options/value_semantic.hpp>
#include <boost/program_options/variables_map.hpp>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace gbcompress::cli {

/// How the program was called.
struct Call {
  std::string program;                 ///< as the shell knows it
  std::vector<std::string> arguments;  ///< everything behind it, as it was given
  std::string verb;
  /// Options with their values as they were given, but for -o and --resume.
  std::vector<std::string> options;
  /// Files and folders that are read, whatever option names them.
  std::vector<std::filesystem::path> inputs;
  /// Of the files that the verb takes of a folder: "safetensors".
  std::vector<std::string> suffixes;
};

/// The arguments of one call, parsed.
class Arguments {
 public:
  Arguments(boost::program_options::variables_map map, std::vector<std::string> words, Call call)
      : map_(std::move(map)), words_(std::move(words)), call_(std::move(call)) {}

  bool has(const std::string& option) const { return map_.count(option) > 0; }
  /// "" where the option was not given.
  std::string text(const std::string& option) const;
  /// Every value of an option that takes text, of a repeatable one in the order given.
  std::vector<std::string> list(const std::string& option) const;
  /// What is no option: "MODEL".
  const std::vector<std::string>& words() const { return words_; }
  const Call& call() const { return call_; }

  /// The same call with another value of an option that takes text, or with other words.
  Arguments with(const std::string& option, const std::string& value) const;
  /// The same of a repeatable option.
  Arguments with_list(const std::string& option, std::vector<std::string> values) const;
  Arguments with_words(std::vector<std::string> words) const;
  Arguments with_inputs(std::vector<std::filesystem::path> inputs) const;

  bool json() const { return has("json"); }
  bool quiet() const { return has("quiet"); }
  bool verbose() const { return has("verbose"); }

 private:
  boost::program_options::variables_map map_;
  std::vector<std::string> words_;
  Call call_;
};

/// Of an option that names files: Arguments::list().
std::vector<std::filesystem::path> paths_of(const Arguments& arguments, const std::string& option);

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
  std::vector<std::string> words = {};    ///< what the first word may be, where it has names
  std::vector<std::string> aliases = {};  ///< other names of the verb
  bool streams = false;                   ///< `-o -` writes to standard output
};
/// Of Verb::max_words: as many as are given.
inline constexpr std::size_t kAnyNumber = std::numeric_limits<std::size_t>::max();

const Verb& compress_verb();
const Verb& expand_verb();
const Verb& inspect_verb();
const Verb& compare_verb();
const Verb& rebase_verb();
const Verb& eval_verb();
const Verb& plugins_verb();
const Verb& mount_verb();
const Verb& doctor_verb();
const Verb& bench_verb();
const Verb& sweep_verb();
const Verb& completion_verb();
const Verb& man_verb();
const Verb& probe_verb();  ///< what `plugins verify` runs in a process of its own

/// @throws Error(kUsage) with the nearest name where there is no such verb
const Verb& find_verb(const std::string& name);
/// Finds the verb, parses and runs it. @param program  its name. @return the exit status
int dispatch(const std::string& program, const std::vector<std::string>& arguments);

/// One JSON object to stdout.
void print_json(const nlohmann::ordered_json& object);
/// One line to stderr: "gbcompress: TEXT", or "gbcompress: [rank 2] TEXT" where there are several.
void say(const std::string& text);
/// "50k", "50kB", "1.5MB", "2MiB" or plain bytes. @throws Error(kUsage) naming the option
std::int64_t parse_bytes(const std::string& text, const std::string& option);

}  // namespace gbcompress::cli
