#include "idle_options.h"

#include <algorithm>

#include "gbcompress/decode.h"
#include "gbcompress/tensors.h"
#include "run_options.h"
#include "table.h"

namespace gbcompress::cli {

void note_idle(const Arguments& arguments, std::initializer_list<const char*> options,
               const std::string& why, std::vector<std::string>& notes) {
  std::vector<std::string> names;
  for (const char* option : options)
    if (arguments.has(option)) names.push_back(std::string("--") + option);
  if (names.empty()) return;
  notes.push_back("warning: " + listed(names) + (names.size() == 1 ? " has" : " have") +
                  " no effect: " + why);
}

void note_idle_parts(const Arguments& arguments, const std::vector<std::filesystem::path>& files,
                     std::vector<std::string>& notes) {
  if (!arguments.has("part") && !arguments.has("keep")) return;
  const bool any = std::any_of(files.begin(), files.end(), [](const auto& file) {
    const FileKind kind = sniff(file);
    return kind != FileKind::kArtifact && kind != FileKind::kTorchScript;
  });
  if (!any)
    note_idle(arguments, {"part", "keep"},
              files.empty() ? "no model file is read" : "a .gbz or TorchScript file has no parts",
              notes);
}

void note_idle_requantize(const Arguments& arguments, std::vector<std::string>& notes) {
  const auto& files = arguments.words();
  const bool any = std::any_of(files.begin(), files.end(), [](const std::string& file) {
    return is_onnx(file) || is_gguf(file);
  });
  if (!any) note_idle(arguments, {"requantize"}, "no input is an ONNX or GGUF model", notes);
}

void note_idle_force(const Arguments& arguments, std::vector<std::string>& notes) {
  if (!arguments.has("report"))
    note_idle(arguments, {"force"}, "it replaces a report, and there is no --report", notes);
}

}  // namespace gbcompress::cli
