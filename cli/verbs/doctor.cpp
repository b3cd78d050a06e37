// `doctor`: runs in the program itself, so that it can say what is wrong with LibTorch.
#include "doctor.h"

#include <sched.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <boost/version.hpp>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>

#include "exit_status.h"
#include "flag_words.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"
#include "idle_options.h"
#include "model_options.h"
#include "table.h"
#include "torch_module.h"
#include "verb_table.h"

namespace gbcompress::cli {

namespace {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

constexpr std::size_t kWidth = 100;  ///< columns of a terminal that a row takes at most

std::string listed(const std::vector<std::string>& words) { return joined(words, ", "); }

/// "AMD EPYC 9B14: SSE4.1, AVX2, ...": the instruction sets that decoding or training chooses by.
std::string processor() {
  std::string model;
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; model.empty() && std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != std::string::npos)
      model = printable(line.substr(line.find(": ") + 2));
  std::vector<std::string> sets;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.1")) sets.push_back("SSE4.1");
  if (__builtin_cpu_supports("avx")) sets.push_back("AVX");
  if (__builtin_cpu_supports("avx2")) sets.push_back("AVX2");
  if (__builtin_cpu_supports("fma")) sets.push_back("FMA");
  if (__builtin_cpu_supports("avx512f")) sets.push_back("AVX-512F");
#elif defined(__aarch64__)
  sets.push_back("NEON");
#endif
  if (model.empty()) model = "unknown model";
  return model + ": " + (sets.empty() ? "no vector instructions that are used" : listed(sets));
}

/// "2 of 4 processors": those that this process may use.
std::string threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int usable =
      ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
  return std::to_string(usable) + " of " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)) +
         " processors";
}

Check temporary_files() {
  std::error_code failed;
  fs::path folder = fs::temp_directory_path(failed);
  std::string problem;
  try {
    if (failed) {
      const char* named = std::getenv("TMPDIR");
      folder = named ? named : "/tmp";
      throw Error(Errc::kIo, printable(folder.string()) +
                                 " is no folder; name one for temporary files in TMPDIR");
    }
    check_writable(folder / ("gbcompress-doctor-" + std::to_string(::getpid())), false);
  } catch (const Error& error) {
    problem = with_flags(error.what());
  }
  return check_of("temporary files", printable(folder.string()), std::move(problem));
}

/// Verbs whose whole work needs LibTorch, or the others.
std::vector<std::string> verbs(bool with_torch) {
  std::vector<std::string> names;
  for (const Verb* verb : all_verbs())
    if (!verb->hidden && (verb->run == nullptr) == with_torch) names.push_back(verb->name);
  return names;
}

std::string needs_torch() {
  return listed(verbs(true)) +
         "; compress --data and --from-scratch; compare --data; plugins list and verify; expand of "
         "layer types of plugins; TorchScript files";
}

std::vector<Check> checks_of(const Arguments& arguments) {
  std::vector<Check> checks = {
      {"gbcompress", GBC_VERSION_STRING},
      {"compiler", "GCC " __VERSION__ ", C++" + std::to_string(__cplusplus)},
      {"Boost", std::to_string(BOOST_VERSION / 100000) + "." +
                    std::to_string(BOOST_VERSION / 100 % 1000) + "." +
                    std::to_string(BOOST_VERSION % 100)},
      {"zstd", std::string("headers " ZSTD_VERSION_STRING ", library ") + ZSTD_versionString()},
      {"processor", processor()},
      {"threads", threads()},
      temporary_files(),
      {"works here", listed(verbs(false))},
  };
  if (const std::string remedy = how_to_get_torch(); !remedy.empty()) {
    std::vector<std::string> idle;
    note_idle(arguments, {"plugin"}, "plugins need LibTorch, which is not part of this build",
              idle);
    say_notes(arguments, idle);
    checks.push_back({"LibTorch", "not part of this build", remedy, CheckState::kMissing});
    checks.push_back({"training", "not here: " + needs_torch(), "", CheckState::kMissing});
    return checks;
  }
  try {
    std::vector<Check> more = checks_with_torch(arguments);
    checks.push_back({"training", needs_torch()});
    std::move(more.begin(), more.end(), std::back_inserter(checks));
  } catch (const Error& error) {
    checks.push_back(check_of("LibTorch", "cannot be used", with_flags(error.what())));
    checks.push_back({"training", "not here: " + needs_torch(), "", CheckState::kMissing});
  }
  return checks;
}

/// Lines of at most `width` bytes, broken at spaces; words that are longer stay whole.
std::vector<std::string> wrapped(const std::string& text, std::size_t width) {
  std::vector<std::string> lines;
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (!lines.empty() && lines.back().size() + 1 + word.size() <= width)
      lines.back() += " " + word;
    else
      lines.push_back(word);
  return lines;
}

constexpr const char* word_of(CheckState state) {
  constexpr const char* kWords[] = {"ok", "missing", "BROKEN"};
  return kWords[static_cast<int>(state)];
}

std::string text_of(const std::vector<Check>& checks) {
  std::size_t names = 0;
  for (const Check& check : checks) names = std::max(names, check.name.size());
  constexpr std::size_t kState = 7, kGap = 2;
  const std::size_t before = kState + kGap + names + kGap;
  const std::size_t width = kWidth > before + 40 ? kWidth - before : 40;
  Table table(3);
  for (const Check& check : checks) {
    // A path stays as it is, so that it can be copied.
    std::vector<std::string> lines = {check.value};
    if (check.value.find('/') == std::string::npos) lines = wrapped(check.value, width);
    if (lines.empty()) lines.push_back("");
    for (std::string& line : wrapped(check.remedy, width)) lines.push_back(std::move(line));
    table.row({word_of(check.state), check.name, lines[0]});
    for (std::size_t i = 1; i < lines.size(); ++i) table.row({"", "", lines[i]});
  }
  return table.text();
}

ordered_json json_of(const std::vector<Check>& checks, bool good) {
  ordered_json list = ordered_json::array();
  for (const Check& check : checks) {
    ordered_json entry = {
        {"name", check.name},
        {"value", check.value},
        {"ok", check.state == CheckState::kOk},
        {"state", check.state == CheckState::kBroken ? "broken" : word_of(check.state)}};
    if (check.state == CheckState::kBroken) entry["problem"] = check.remedy;
    if (check.state == CheckState::kMissing && !check.remedy.empty())
      entry["install"] = check.remedy;
    list.push_back(std::move(entry));
  }
  return {{"ok", good}, {"version", GBC_VERSION_STRING}, {"checks", std::move(list)}};
}

int doctor(const Arguments& arguments) {
  const std::vector<Check> checks = checks_of(arguments);
  const bool good = std::none_of(checks.begin(), checks.end(), [](const Check& check) {
    return check.state == CheckState::kBroken;
  });
  if (arguments.json())
    print_json(json_of(checks, good));
  else
    std::cout << text_of(checks);
  return good ? kDone : kFailed;
}

}  // namespace

const Verb& doctor_verb() {
  static const Verb verb = {
      "doctor",   "Check the installation: what works, what is missing, what is broken.",
      "[--json]", "  gbcompress doctor\n",
      0,          0,
      nullptr,    doctor};
  return verb;
}

}  // namespace gbcompress::cli
