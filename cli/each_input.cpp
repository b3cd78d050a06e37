#include "each_input.h"

#include <algorithm>
#include <iostream>
#include <map>
#include <sstream>

#include "call_files.h"
#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/error.h"
#include "outcome.h"
#include "run_options.h"
#include "standard_streams.h"

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

std::string suffix_for(const std::string& input, const Maker& maker) {
  return maker.suffix_for ? maker.suffix_for(input) : maker.suffix;
}

/// Where the file of an input goes that -o does not name.
std::string default_output(const std::string& input, const Maker& maker) {
  if (input == kStandardInput) return "-";
  if (is_folder(input))
    throw Error(Errc::kUsage, "name the folder to write: -o " +
                                  quoted(model_name(input) + maker.folder_suffix + "/"));
  return (fs::path(input).parent_path() / (model_name(input) + suffix_for(input, maker))).string();
}

int run_one(const Arguments& arguments, const Maker& maker) {
  const bool named = arguments.has("output");
  if (named && arguments.text("output").empty())
    throw Error(Errc::kUsage, "name the file to write: -o " + maker.example);
  if (named || arguments.has("dry-run")) return maker.run(arguments);
  if (arguments.words().empty())
    throw Error(Errc::kUsage, "name the file to write: -o " + maker.example);
  const std::string output = default_output(arguments.words()[0], maker);
  if (output == "-") results_to_standard_error();
  const Arguments resolved = arguments.with("output", output);
  check_outputs(resolved);
  return maker.run(resolved);
}

/// One of several inputs, and where its file goes.
struct Job {
  std::string input, output;
};

/// @param folder  -o without its slash, or ""
std::vector<Job> jobs_of(const std::vector<std::string>& inputs, const std::string& folder,
                         const Maker& maker) {
  std::vector<Job> jobs;
  std::map<std::string, std::string> made_of;
  for (const std::string& input : inputs) {
    if (input == kStandardInput)
      throw Error(Errc::kUsage, "standard input (-) cannot be one of several inputs");
    std::string output;
    if (folder.empty())
      output = default_output(input, maker);
    else  // of a folder a folder
      output =
          folder + "/" + model_name(input) + (is_folder(input) ? "/" : suffix_for(input, maker));
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
  if (launch_of(arguments).world > 1)
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

/// What one job printed, as part of the one object. Its error is an object, too.
ordered_json run_json(const Arguments& arguments, const Job& job, const Maker& maker, int& status) {
  std::string text;
  {
    const Printed printed;
    status = told(true, [&] { return maker.run(arguments); });
    text = printed.text();
  }
  ordered_json result = {{"input", job.input}};
  ordered_json own = ordered_json::parse(text, nullptr, false);
  if (own.is_object()) result.update(own);
  result["status"] = status;
  return result;
}

struct Summary {
  std::size_t done = 0, missed = 0;
  std::vector<std::string> failed;
  int status = kDone;

  void add(const Job& job, int ended) {
    if (ended == kDone) {
      ++done;
      return;
    }
    const bool first = status == kDone || status == kTargetMissed;
    if (ended == kTargetMissed)
      ++missed;
    else
      failed.push_back(printable(job.input));
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

int run_several(const Arguments& arguments, const Maker& maker) {
  check_options(arguments);
  const std::string folder = folder_of(arguments);
  const std::vector<Job> jobs = jobs_of(arguments.words(), folder, maker);
  std::error_code failed;
  const bool made =
      !folder.empty() && !arguments.has("dry-run") && fs::create_directory(folder, failed);
  if (failed)
    throw WriteError(Errc::kIo, printable(folder) + " cannot be made: " + failed.message());
  Summary summary;
  ordered_json results = ordered_json::array();
  for (const Job& job : jobs) {
    const Arguments one = arguments.with_words({job.input}).with("output", job.output);
    int status = kDone;
    if (arguments.json()) {
      results.push_back(run_json(one, job, maker, status));
    } else {
      std::cout << (&job == &jobs.front() ? "" : "\n") << printable(job.input) << "\n"
                << std::flush;
      status = told(false, [&] { return maker.run(one); });
    }
    summary.add(job, status);
    if (interrupt_requested() != 0) break;
  }
  if (made) fs::remove(folder, failed);  // only where nothing is in it
  if (arguments.json())
    print_json({{"written", summary.done + summary.missed},
                {"over_target", summary.missed},
                {"failed", summary.failed.size()},
                {"results", std::move(results)}});
  else if (!arguments.has("dry-run"))
    std::cout << "\n" << summary.text(jobs.size()) << "\n";
  return summary.status;
}

}  // namespace

int run_each(const Arguments& arguments, const Maker& maker) {
  return arguments.words().size() > 1 ? run_several(arguments, maker) : run_one(arguments, maker);
}

}  // namespace gbcompress::cli
