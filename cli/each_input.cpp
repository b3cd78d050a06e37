#include "each_input.h"

#include <algorithm>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <sstream>

#include "call_files.h"
#include "exit_status.h"
#include "family.h"
#include "file_names.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"
#include "model_folders.h"
#include "model_options.h"
#include "outcome.h"
#include "run_options.h"
#include "standard_streams.h"
#include "table.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

using nlohmann::ordered_json;

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

std::string without_slash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string suffix_for(const Arguments& arguments, const std::string& input, const Maker& maker) {
  return maker.suffix_for ? maker.suffix_for(arguments, input) : maker.suffix;
}

/// Where the file of an input goes that -o does not name.
std::string default_output(const Arguments& arguments, const std::string& input,
                           const Maker& maker) {
  if (input == kStandardInput) return "-";
  if (is_folder(input))
    throw Error(Errc::kUsage, "name the folder to write: -o " +
                                  quoted(model_name(input) + maker.folder_suffix + "/"));
  return (fs::path(input).parent_path() / (model_name(input) + suffix_for(arguments, input, maker)))
      .string();
}

int run_input(const Arguments& arguments, const Maker& maker, Family* family = nullptr);

int run_one(const Arguments& arguments, const Maker& maker) {
  const bool named = arguments.has("output");
  if (named && arguments.text("output").empty())
    throw Error(Errc::kUsage, "name the file to write: -o " + maker.example);
  if (named || arguments.has("dry-run")) return run_input(arguments, maker);
  if (arguments.words().empty())
    throw Error(Errc::kUsage, "name the file to write: -o " + maker.example);
  const std::string output = default_output(arguments, arguments.words()[0], maker);
  if (output == "-") results_to_standard_error();
  const Arguments resolved = arguments.with("output", output);
  check_outputs(resolved);
  return run_input(resolved, maker);
}

/// One of several inputs, and where its file goes.
struct Job {
  std::string input, output;
  std::vector<std::string> bases = {};
};

/// @param folder  -o without its slash, or ""
std::vector<Job> jobs_of(const Arguments& arguments, const std::vector<std::string>& inputs,
                         const std::string& folder, const Maker& maker) {
  std::vector<Job> jobs;
  std::map<std::string, std::string> made_of;
  for (const std::string& input : inputs) {
    if (input == kStandardInput)
      throw Error(Errc::kUsage, "standard input (-) cannot be one of several inputs");
    std::string output;
    if (folder.empty())
      output = default_output(arguments, input, maker);
    else  // of a folder a folder
      output = folder + "/" + model_name(input) +
               (is_folder(input) ? "/" : suffix_for(arguments, input, maker));
    const auto [other, is_new] = made_of.emplace(fs::path(output).lexically_normal(), input);
    if (!is_new)
      throw Error(Errc::kUsage, printable(other->second) + " and " + printable(input) +
                                    " would both become " + printable(output) +
                                    "; give them one by one");
    jobs.push_back({input, std::move(output)});
  }
  return jobs;
}

/// @return -o as a folder, "" without it. @throws Error(kUsage)
std::string folder_of(const Arguments& arguments) {
  const std::string given = arguments.text("output");
  if (!arguments.has("output")) return "";
  std::error_code ignored;
  const bool slash = given.ends_with('/');
  if (!is_folder(given) &&
      (given.empty() || given == "-" || fs::exists(without_slash(given), ignored) ||
       (!slash && names_a_model_file(given))))
    throw Error(Errc::kUsage, "several inputs need a folder to write to, and -o names " +
                                  (given == "-"    ? "standard output"
                                   : given.empty() ? "nothing"
                                                   : printable(given)) +
                                  "; use -o OUT/");
  return without_slash(given);
}

void check_options(const Arguments& arguments) {
  for (const char* option : {"report", "tensorboard", "checkpoint", "resume"})
    if (arguments.has(option))
      throw Error(Errc::kUsage,
                  std::string("--") + option + " belongs to one input; give the inputs one by one");
  if (read_launch().world > 1)
    throw Error(Errc::kUsage, "several processes share one input; give the inputs one by one");
}

/// What is printed to standard output meanwhile.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  Printed(const Printed&) = delete;
  Printed& operator=(const Printed&) = delete;
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

/// What a call printed, as part of one object. Its error is an object, too.
ordered_json run_json(const std::string& input, const std::function<int()>& run, int& status) {
  std::string text;
  {
    const Printed printed;
    status = told(true, run);
    text = printed.text();
  }
  ordered_json result = {{"input", input}};
  ordered_json own = ordered_json::parse(text, nullptr, false);
  if (own.is_object()) result.update(own);
  result["status"] = status;
  return result;
}

struct Summary {
  std::size_t done = 0, missed = 0;
  std::vector<std::string> failed;
  int status = kDone;

  void add(const std::string& input, int ended) {
    if (ended == kDone) {
      ++done;
      return;
    }
    const bool first = status == kDone || status == kTargetMissed;
    if (ended == kTargetMissed)
      ++missed;
    else
      failed.push_back(printable(input));
    if (first && (status == kDone || ended != kTargetMissed)) status = ended;
  }
  std::string text(std::size_t all) const {
    std::string words =
        std::to_string(done + missed) + " of " + std::to_string(all) + " files written";
    if (missed > 0) words += ", " + std::to_string(missed) + " of them exceed the target";
    for (std::size_t i = 0; i < failed.size(); ++i) words += (i ? ", " : "; failed: ") + failed[i];
    return words;
  }
};

/// The call for one of several inputs. @param in_family  of a family's: its bases; or null
Arguments call_of(const Arguments& arguments, const Job& job, const FamilyBases* in_family) {
  Arguments one = arguments.with_words({job.input});
  if (!job.output.empty()) one = one.with("output", job.output);
  const std::vector<std::string>& bases = in_family ? in_family->paths : job.bases;
  if (!bases.empty()) one = one.with_list("base", bases);
  if (in_family && !bases.empty() && !arguments.quiet())
    say(printable(job.input) + " is stored as the change since " + listed(bases) +
        "; expand needs the files of " + (bases.size() > 1 ? "all" : "both") + " in one folder");
  return one;
}

/// One after another. @param family  of their models, or null. @return the exit status
int run_jobs(const Arguments& arguments, const std::vector<Job>& jobs, const Maker& maker,
             Family* family = nullptr) {
  Summary summary;
  ordered_json results = ordered_json::array();
  for (const Job& job : jobs) {
    FamilyBases bases;
    const auto run = [&] {
      if (family) bases = family->bases_of(job.input);
      return run_input(call_of(arguments, job, family ? &bases : nullptr), maker, family);
    };
    int status = kDone;
    if (arguments.json()) {
      results.push_back(run_json(job.input, run, status));
      if (family) results.back()["bases"] = bases.paths;
      if (family) results.back()["saved_bytes"] = bases.saved_bytes;
    } else {
      std::cout << (&job == &jobs.front() ? "" : "\n") << printable(job.input) << "\n"
                << std::flush;
      status = told(false, run);
    }
    summary.add(job.input, status);
    if (interrupt_requested() != 0) break;
  }
  if (arguments.json())
    print_json({{"written", summary.done + summary.missed},
                {"over_target", summary.missed},
                {"failed", summary.failed.size()},
                {"results", std::move(results)}});
  else if (!arguments.has("dry-run"))
    std::cout << "\n" << summary.text(jobs.size()) << "\n";
  return summary.status;
}

int run_several(const Arguments& arguments, const Maker& maker) {
  check_options(arguments);
  const std::string folder = folder_of(arguments);
  std::vector<Job> jobs = jobs_of(arguments, arguments.words(), folder, maker);
  std::error_code failed;
  const bool made =
      !folder.empty() && !arguments.has("dry-run") && fs::create_directory(folder, failed);
  if (failed)
    throw WriteError(Errc::kIo, printable(folder) + " cannot be made: " + failed.message());
  std::optional<Family> family;
  if (!folder.empty() && !arguments.has("dry-run") && maker.makes_family &&
      maker.makes_family(arguments))
    family.emplace(arguments);
  if (family)
    std::stable_partition(jobs.begin(), jobs.end(),
                          [&](const Job& job) { return !family->holds_blocks(job.input); });
  const int status = run_jobs(arguments, jobs, maker, family ? &*family : nullptr);
  if (made) fs::remove(folder, failed);  // only where nothing is in it
  return status;
}

/// Folders that are made, and that go again where nothing was put into them.
class MadeFolders {
 public:
  MadeFolders() = default;
  ~MadeFolders() {
    std::error_code ignored;
    for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
  }
  MadeFolders(const MadeFolders&) = delete;
  MadeFolders& operator=(const MadeFolders&) = delete;

  /// @throws WriteError
  void make(const fs::path& folder, const fs::path& within) {
    fs::path path = folder;
    make_one(path);
    for (const fs::path& part : within) make_one(path /= part);
  }

 private:
  void make_one(const fs::path& path) {
    std::error_code failed;
    if (fs::create_directory(path, failed)) made_.push_back(path);
    if (failed || !fs::is_directory(path, failed))
      throw WriteError(Errc::kIo, printable(path.string()) + " cannot be made: " +
                                      (failed ? failed.message() : "there is a file"));
  }
  std::vector<fs::path> made_;
};

/// A folder whose subfolders hold the models, as a pipeline's do: to the same layout.
int run_components(const Arguments& arguments, const std::vector<fs::path>& parts,
                   const Maker& maker) {
  const fs::path source = arguments.words()[0];
  check_options(arguments);
  if (arguments.has("max-bytes"))
    throw Error(Errc::kUsage, "--max-bytes is the size of one file, and " +
                                  printable(source.string()) + " holds " +
                                  std::to_string(parts.size()) +
                                  " models in its subfolders; use --ratio or --bits, or give the "
                                  "subfolders one by one");
  const std::vector<std::string> bases = arguments.list("base");
  const bool writes = !arguments.has("dry-run");
  const std::string folder = writes ? folder_of(arguments) : "";
  if (writes) check_not_an_input(arguments, folder);
  MadeFolders made;
  std::vector<Job> jobs;
  for (const fs::path& part : parts) {
    Job job{(source / part).string(), ""};
    if (writes) job.output = (folder / part).string() + "/";
    for (const fs::path base : bases)
      if (is_folder(base / part)) job.bases.push_back((base / part).string());
    if (writes) made.make(folder, part.parent_path());
    jobs.push_back(std::move(job));
  }
  std::optional<CarriedCopies> copies;
  TensorBundle bundle;
  find_carried(source, bundle, takes_whole_folder(arguments, source));
  say_notes(arguments, bundle.notes);
  if (writes)
    writing([&] {
      copies.emplace(source, bundle.carried, folder, arguments.has("force"));
      return 0;
    });
  const int status = run_jobs(arguments, jobs, maker);
  if (copies && (status == kDone || status == kTargetMissed))
    writing([&] { return copies->commit(); });
  return status;
}

int run_input(const Arguments& arguments, const Maker& maker, Family* family) {
  const auto& words = arguments.words();
  const std::vector<fs::path> parts =
      words.empty() ? std::vector<fs::path>() : component_folders(words[0]);
  return parts.empty() ? maker.run(arguments, family) : run_components(arguments, parts, maker);
}

}  // namespace

int run_each(const Arguments& arguments, const Maker& maker) {
  return arguments.words().size() > 1 ? run_several(arguments, maker) : run_one(arguments, maker);
}

int run_parts(const Arguments& arguments, int (*run)(const Arguments& arguments)) {
  const auto& words = arguments.words();
  const std::vector<fs::path> parts = component_folders(words[0]);
  if (parts.empty()) return run(arguments);
  for (const std::string& word : words)
    if (component_folders(word) != parts)
      throw Error(Errc::kUsage, printable(words[0]) + " holds models in subfolders, and " +
                                    printable(word) +
                                    " has not the same; give the subfolders one by one");
  if (arguments.has("report"))
    throw Error(Errc::kUsage, "--report belongs to one model; give the subfolders of " +
                                  printable(words[0]) + " one by one");
  int status = kDone;
  ordered_json results = ordered_json::array();
  for (const fs::path& part : parts) {
    std::vector<std::string> own;
    for (const std::string& word : words) own.push_back((fs::path(word) / part).string());
    const Arguments one = arguments.with_words(std::move(own));
    const auto run_part = [&] { return run(one); };
    int ended = kDone;
    if (arguments.json()) {
      results.push_back(run_json(part.generic_string(), run_part, ended));
    } else {
      std::cout << (part == parts.front() ? "" : "\n") << printable(part.string()) << "\n"
                << std::flush;
      ended = told(false, run_part);
    }
    if (status == kDone) status = ended;
  }
  if (arguments.json()) print_json({{"folder", words[0]}, {"results", std::move(results)}});
  return status;
}

}  // namespace gbcompress::cli
