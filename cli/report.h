#pragma once
/// `--report FILE.html`: a page of its own that shows what a verb found, for people. It holds the
/// verb's `--json` object with names of files in place of paths, a fixed script and style, and
/// nothing that is loaded from the network.

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "command.h"
#include "gbcompress/artifact.h"
#include "gbcompress/weights.h"
#include "report_paths.h"

namespace gbcompress::cli {

/// --report, and --force where `force`: the verb has none of its own.
void add_report_options(boost::program_options::options_description& into, bool force);

/// A value over steps, of bounded length: where there are more steps, a point is the mean of some.
class Curve {
 public:
  void add(double x, double y);
  nlohmann::ordered_json x() const, y() const;

 private:
  void close();
  std::vector<double> x_, y_;
  double sum_x_ = 0, sum_y_ = 0;
  std::int64_t held_ = 0, stride_ = 1;
};

class Report {
 public:
  /// Tries the path at once, so that a run does not end in "no permission". Without --report
  /// nothing is done, here and below.
  /// @param subject  what the page is about: a file, whose name is shown without its folder
  /// @throws Error(kUsage) where it is the output too; as check_writable()
  Report(const Arguments& arguments, std::string verb, std::string subject);

  bool wanted() const noexcept { return !path_.empty(); }
  /// What the verb's object does not say: "settings", "curves", "attempts", "notes".
  void set(const std::string& key, nlohmann::ordered_json value);
  /// Lists a file's tensors, where the verb's object does not.
  void list(const TensorSource& file);
  /// Histograms of what a file holds, beside what it was made of.
  void show(TensorSource file, std::optional<TensorSource> original = {});
  /// The same, unless layer types of plugins make some of its tensors: then a note says so.
  void show(const ArtifactReader& artifact, std::optional<TensorSource> original = {});
  /// @param result  the verb's `--json` object
  /// @throws Error(kIo, kExists)
  void write(nlohmann::ordered_json result);

 private:
  std::filesystem::path path_;
  bool overwrite_ = false;
  KnownFolders folders_;
  nlohmann::ordered_json page_;
  std::optional<TensorSource> file_, original_;
};

}  // namespace gbcompress::cli
