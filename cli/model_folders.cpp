#include "model_folders.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "call_files.h"
#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "standard_streams.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;

namespace {

/// A folder of its own for a file that goes to standard output.
fs::path new_folder() {
  std::error_code failed;
  const fs::path parent = fs::temp_directory_path(failed);
  std::string name = (parent / "gbcompress-XXXXXX").string();
  if (failed || ::mkdtemp(name.data()) == nullptr)
    throw WriteError(Errc::kIo, "a folder in " + printable(parent.string()) + " cannot be made: " +
                                    (failed ? failed.message() : std::strerror(errno)) +
                                    "; set TMPDIR to another one");
  return name;
}

/// Whether -o of a folder is one, too.
bool is_folder(const std::string& given, bool of_folder) {
  std::error_code ignored;
  if (given.ends_with('/') || fs::is_directory(given, ignored)) return true;
  return of_folder && !given.empty() && !fs::exists(given, ignored) && !names_a_model_file(given);
}

}  // namespace

bool takes_whole_folder(const Arguments& arguments, const fs::path& source) {
  std::error_code ignored;
  if (!fs::is_directory(source, ignored)) return false;
  if (arguments.has("lossless") || arguments.text("mode") == "exact") return true;
  std::vector<fs::path> parts = component_folders(source);
  const fs::path file = model_in(parts.empty() ? source : source / parts.front());
  if (!fs::is_regular_file(file, ignored) || !ArtifactReader::is_artifact(file)) return false;
  const auto originals = originals_of(ArtifactReader::open(file, {}, DigestCheck::kWhileDecoding));
  return originals && originals->is_exact();
}

ModelOutput::ModelOutput(const Arguments& arguments, const fs::path& source,
                         const std::string& suffix, const std::string& own_name)
    : arguments_(arguments),
      overwrite_(arguments.has("force")),
      source_(source),
      file_(arguments.text("output")) {
  std::error_code ignored;
  const bool of_folder = fs::is_directory(source, ignored);
  if (of_folder) {
    TensorBundle bundle;
    find_carried(source, bundle, takes_whole_folder(arguments, source));
    carried_ = std::move(bundle.carried);
  }
  const bool has_name = !source.empty() && source != kStandardInput;
  const std::string name = (of_folder  ? weights_name(source)
                            : has_name ? model_name(source)
                                       : "model") +
                           suffix;
  const auto status = fs::status(file_, ignored);
  if (file_ == "-" || fs::is_character_file(status) || fs::is_fifo(status)) {
    sink_ = file_;
    stream_ = made_ = true;
    folder_ = new_folder();
  } else if (is_folder(file_, of_folder || !own_name.empty())) {
    while (file_.size() > 1 && file_.ends_with('/')) file_.pop_back();
    folder_ = file_;
  } else {
    return;
  }
  if (suffix == ".gbz") artifact_ = name;
  file_ = (folder_ / (stream_ || own_name.empty() ? name : own_name)).string();
}

ModelOutput::~ModelOutput() {
  copies_.reset();
  std::error_code ignored;
  if (stream_) fs::remove(file_, ignored);
  // Only an empty folder goes: checkpoints of an interrupted run may lie in it.
  if (made_) fs::remove(folder_, ignored);
}

std::string ModelOutput::shown() const {
  return sink_ == "-" ? "standard output" : printable(name());
}

void ModelOutput::check() const {
  if (stream_ && sink_ != "-") return check_writable(sink_, overwrite_);
  if (stream_) return check_standard_output();
  check_not_an_input(arguments_, file_);
  std::error_code ignored;
  if (folder_.empty()) return check_writable(file_, overwrite_);
  check_not_an_input(arguments_, folder_);
  if (!fs::exists(folder_, ignored)) return check_writable(folder_, overwrite_);
  if (!fs::is_directory(folder_, ignored))
    throw Error(Errc::kIo, printable(folder_.string()) + " is a file; name a folder to write into");
  check_writable(file_, overwrite_);
  const CarriedCopies probe(source_, carried_, folder_, overwrite_, artifact_);
}

void ModelOutput::begin() {
  if (folder_.empty() || stream_) return;
  std::error_code error;
  made_ = fs::create_directory(folder_, error);
  if (error)
    throw Error(Errc::kIo, printable(folder_.string()) + " cannot be made: " + error.message());
  copies_.emplace(source_, carried_, folder_, overwrite_, artifact_);
}

std::size_t ModelOutput::finish() {
  if (stream_) {
    send_to_stream(file_, sink_);
    return 0;
  }
  made_ = false;
  return copies_ ? copies_->commit() : 0;
}

void ModelOutput::say_what_stays() const {
  if ((folder_.empty() || stream_) && !carried_.empty() && !arguments_.quiet())
    say("only the weights are written; to take the folder's other files along, name a folder: -o "
        "OUT/");
}

}  // namespace gbcompress::cli
