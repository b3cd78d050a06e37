#include "resumption.h"

#include "file_names.h"
#include "gbcompress/checkpoint.h"
#include "standard_streams.h"

namespace gbcompress::cli {

std::string resume_command(const Arguments& arguments, const std::filesystem::path& folder) {
  const Call& call = arguments.call();
  std::vector<std::string> words = {call.program, call.verb};
  for (const std::string& word : arguments.words())
    words.push_back(word == kStandardInput ? "-" : word);
  words.insert(words.end(), call.options.begin(), call.options.end());
  if (arguments.has("output")) words.insert(words.end(), {"-o", arguments.text("output")});
  words.insert(words.end(), {"--resume", folder.string()});
  return quoted(words);
}

std::optional<std::string> resumption(const Error& error, const Arguments& arguments,
                                      const std::filesystem::path& folder) {
  if (folder.empty() || list_checkpoints(folder).empty()) return {};
  const std::string command = resume_command(arguments, folder);
  if (error.code() == Errc::kInterrupted)
    return "stopped on request; this continues the run: " + command;
  if (error.code() == Errc::kExists && !arguments.has("resume"))
    return printable(folder.string()) +
           " holds checkpoints of an earlier run; delete the folder, or continue that run: " +
           command;
  return {};
}

}  // namespace gbcompress::cli
