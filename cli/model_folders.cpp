#include "model_folders.h"

#include "gbcompress/error.h"
#include "gbcompress/tensors.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;

FolderOutput::FolderOutput(const fs::path& source, std::string given, const std::string& name)
    : file_(std::move(given)) {
  std::error_code ignored;
  if (!fs::is_directory(source, ignored)) return;
  TensorBundle bundle;
  find_carried(source, bundle);
  carried_ = std::move(bundle.carried);
  if (!file_.ends_with('/') && !fs::is_directory(file_, ignored)) return;
  while (file_.size() > 1 && file_.ends_with('/')) file_.pop_back();
  folder_ = file_;
  file_ = (folder_ / name).string();
}

FolderOutput::~FolderOutput() {
  copies_.reset();
  // Only an empty folder goes: checkpoints of an interrupted run may lie in it.
  std::error_code ignored;
  if (made_) fs::remove(folder_, ignored);
}

void FolderOutput::check(bool overwrite) const {
  std::error_code ignored;
  if (folder_.empty()) return check_writable(file_, overwrite);
  if (!fs::is_directory(folder_, ignored)) return check_writable(folder_, overwrite);
  check_writable(file_, overwrite);
  const CarriedCopies probe(carried_, folder_, overwrite);
}

void FolderOutput::begin(bool overwrite) {
  if (folder_.empty()) return;
  std::error_code error;
  made_ = fs::create_directory(folder_, error);
  if (error)
    throw Error(Errc::kIo, printable(folder_.string()) + " cannot be made: " + error.message());
  copies_.emplace(carried_, folder_, overwrite);
}

std::size_t FolderOutput::finish() {
  made_ = false;
  return copies_ ? copies_->commit() : 0;
}

void FolderOutput::say_what_stays(const Arguments& arguments) const {
  if (folder_.empty() && !carried_.empty() && !arguments.quiet())
    say("only the weights are written; to take the folder's other files along, name a folder: -o "
        "OUT/");
}

fs::path artifact_in(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return path;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".gbz") found.push_back(at->path());
  const std::string label = printable(path.string());
  if (error) throw Error(Errc::kIo, label + " cannot be read: " + error.message());
  if (found.empty()) throw Error(Errc::kNotFound, label + " is a folder that holds no .gbz file");
  if (found.size() > 1)
    throw Error(Errc::kUsage, label + " holds several .gbz files; name one of them");
  return found.front();
}

}  // namespace gbcompress::cli
