#include "call_files.h"

#include <algorithm>

#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "standard_streams.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

constexpr const char* kInputOptions[] = {"base",  "onto",    "statistics",
                                         "model", "against", "config"};
constexpr const char* kOutputOptions[] = {"output", "report", "tensorboard", "checkpoint"};
/// Options that cannot be a stream, and what to give them.
constexpr std::pair<const char*, const char*> kNoStreams[] = {
    {"report", "a file"},       {"tensorboard", "a folder"}, {"checkpoint", "a folder"},
    {"resume", "a checkpoint"}, {"plugin", "a file"},        {"data", "a file"}};

std::string flag(const std::string& option) { return option == "output" ? "-o" : "--" + option; }

/// Of --data KIND:PATH[,PATH].
std::vector<std::string> data_paths(const Arguments& arguments) {
  const std::string text = arguments.text("data");
  std::vector<std::string> paths;
  const std::size_t colon = text.find(':');
  if (colon == std::string::npos) return paths;
  for (std::size_t first = colon + 1; first <= text.size();) {
    const std::size_t last = std::min(text.find(',', first), text.size());
    paths.push_back(text.substr(first, last - first));
    first = last + 1;
  }
  return paths;
}

void refuse_streams(const Arguments& arguments, bool streams) {
  for (const auto& [option, wanted] : kNoStreams) {
    std::vector<std::string> values;
    if (option == std::string("plugin"))
      values = arguments.list(option);
    else if (option == std::string("data"))
      values = data_paths(arguments);
    else
      values = {arguments.text(option)};
    if (std::find(values.begin(), values.end(), "-") != values.end())
      throw Error(Errc::kUsage, flag(option) + " takes no standard stream (-); name " + wanted);
  }
  if (arguments.text("output") == "-" && !streams)
    throw Error(Errc::kUsage, "-o takes no standard stream (-) here; name a folder");
}

bool ends_with_any(const std::string& name, const std::vector<std::string>& suffixes) {
  return std::any_of(suffixes.begin(), suffixes.end(),
                     [&](const std::string& suffix) { return name.ends_with("." + suffix); });
}

/// What of a folder may be read.
/// @param model  files of the verb's suffixes; else of data, which have any name
std::vector<fs::path> files_in(const fs::path& folder, bool model, const Call& call) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (model ? ends_with_any(name, call.suffixes) : !ends_with_any(name, {"gbz", "html"}))
      files.push_back(at->path());
  }
  return files;
}

}  // namespace

Arguments with_files(const Arguments& arguments, bool files, bool streams) {
  refuse_streams(arguments, streams);
  if (arguments.text("output") == "-") results_to_standard_error();
  int given = 0;
  std::vector<std::string> words = arguments.words();
  Arguments result = arguments;
  for (std::string& word : words)
    if (files && word == "-" && ++given > 0) word = kStandardInput;
  for (const char* option : kInputOptions) {
    std::vector<std::string> values = arguments.list(option);
    const auto stream = std::find(values.begin(), values.end(), "-");
    if (stream == values.end()) continue;
    given += static_cast<int>(std::count(values.begin(), values.end(), "-"));
    *stream = kStandardInput;
    result = option == std::string("base") ? result.with_list(option, std::move(values))
                                           : result.with(option, kStandardInput);
  }
  if (given > 1)
    throw Error(Errc::kUsage, "standard input (-) can be one input, and is named " +
                                  std::to_string(given) + " times");
  if (given > 0) keep_standard_input();
  std::vector<fs::path> inputs;
  if (files) inputs.assign(words.begin(), words.end());
  for (const char* option : kInputOptions)
    for (const std::string& value : result.list(option)) inputs.emplace_back(value);
  for (const std::string& path : data_paths(arguments)) inputs.emplace_back(path);
  for (const std::string& plugin : arguments.list("plugin")) inputs.emplace_back(plugin);
  return result.with_words(std::move(words)).with_inputs(std::move(inputs));
}

void check_not_an_input(const Arguments& arguments, const fs::path& output) {
  std::error_code ignored;
  if (!fs::exists(output, ignored)) return;
  const Call& call = arguments.call();
  const auto& words = arguments.words();
  std::vector<fs::path> inputs;
  for (const fs::path& input : call.inputs) {
    inputs.push_back(input);
    const bool word = std::find(words.begin(), words.end(), input.string()) != words.end();
    const bool index = word && input.string().ends_with(".index.json");
    if (!index && !fs::is_directory(input, ignored)) continue;
    const fs::path folder = index ? input.parent_path() : input;
    const auto within = files_in(folder.empty() ? "." : folder, word, call);
    inputs.insert(inputs.end(), within.begin(), within.end());
  }
  gbcompress::check_not_an_input(output, inputs);
}

void check_outputs(const Arguments& arguments) {
  std::error_code ignored;
  std::vector<std::pair<std::string, fs::path>> outputs;
  for (const char* option : kOutputOptions) {
    const std::string text = arguments.text(option);
    if (text.empty() || text == "-") continue;
    check_not_an_input(arguments, text);
    if (fs::is_character_file(fs::status(text, ignored))) continue;  // takes any number of files
    const fs::path path = fs::weakly_canonical(fs::absolute(text), ignored);
    for (const auto& [other, there] : outputs) {
      if (path == there)
        throw Error(Errc::kUsage, flag(option) + " names " + printable(text) + ", which " +
                                      flag(other) + " names too; name another path");
    }
    outputs.emplace_back(option, path);
  }
}

}  // namespace gbcompress::cli
