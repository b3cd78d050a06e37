#include "format/folder/carried_files.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <span>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/folder.h"
#include "format/file_kind.h"
#include "format/folder/components.h"
#include "format/folder/left_out.h"
#include "format/folder/packed_config.h"
#include "format/folder/weight_files.h"
#include "format/model_folder.h"
#include "format/safetensors/json_scan.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kCarriedEnds[] = {".json", ".txt",   ".model", ".jinja",
                                             ".md",   ".vocab", ".bpe",   ".tiktoken",
                                             ".yaml", ".yml",   ".py"};
constexpr std::string_view kTraining[] = {"optimizer.pt",      "optimizer.bin",
                                          "scheduler.pt",      "scaler.pt",
                                          "training_args.bin", "trainer_state.json"};
constexpr const char* kConfig = "config.json";  ///< of Transformers, in the folder itself
/// A list of modules that sentence-transformers writes, and how much of it is read.
constexpr const char* kModules = "modules.json";
constexpr std::uint64_t kMostModules = 1 << 20;

bool is_training_file(std::string_view name) {
  return name.starts_with("rng_state") ||
         std::find(std::begin(kTraining), std::end(kTraining), name) != std::end(kTraining);
}

/// No surprise for a terminal.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name.size() <= 255 && name == printable(name);
}

bool is_carried_name(const std::string& name) {
  if (is_model_index(name) || is_training_file(name)) return false;
  if (name.starts_with("LICENSE") || name.starts_with("NOTICE")) return true;
  return std::any_of(std::begin(kCarriedEnds), std::end(kCarriedEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// Hugging Face's cache keeps every file as a link "../../blobs/DIGEST", with one "../" more for
/// each subfolder. Other links could bring any file of this machine into the output.
bool is_cache_link(const fs::path& path, std::size_t depth) {
  std::string blobs;
  for (std::size_t i = 0; i < depth + 2; ++i) blobs += "../";
  blobs += "blobs/";
  std::error_code error;
  const std::string target = fs::read_symlink(path, error).string();
  if (error || !target.starts_with(blobs)) return false;
  const std::string_view digest = std::string_view(target).substr(blobs.size());
  return digest.size() >= 32 && std::all_of(digest.begin(), digest.end(),
                                            [](unsigned char c) { return std::isxdigit(c) != 0; });
}

/// @param depth  of the subfolder that the file lies in; 0: in the folder itself
bool is_plain_file(const fs::path& path, std::size_t depth) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  return fs::is_regular_file(status) || (fs::is_symlink(status) && is_cache_link(path, depth) &&
                                         fs::is_regular_file(path, ignored));
}

std::size_t depth_of(const fs::path& relative) {
  return static_cast<std::size_t>(std::distance(relative.begin(), relative.end())) - 1;
}

class ModulePaths : public JsonHandler {
 public:
  std::set<std::string> paths;

  void begin(JsonFrames, bool) override {}
  void end(JsonFrames) override {}
  void text(JsonFrames frames, std::string& value) override {
    if (frames.size() == 2 && frames[1].object && frames[1].key == "path" && !value.empty())
      paths.insert(value);
  }
  void whole(JsonFrames, std::uint64_t) override {}
  void other(JsonFrames) override {}
};

/// Subfolders that sentence-transformers loads modules from, as the list in the folder names them.
/// They are compared with, never opened.
std::set<std::string> module_folders(const fs::path& folder) {
  const fs::path list = folder / kModules;
  if (!is_plain_file(list, 0)) return {};
  ModulePaths handler;
  try {
    const std::vector<std::byte> bytes = read_file(list, kMostModules);
    scan_json({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, printable(list.string()),
              8, handler);
  } catch (const Error&) {  // a list that is none names no folders
    return {};
  }
  return std::move(handler.paths);
}

/// Walks a folder and its subfolders.
class Walk {
 public:
  /// @param whole  of find_carried()
  Walk(const fs::path& folder, TensorBundle& bundle, bool whole)
      : folder_(folder), bundle_(bundle), whole_(whole), modules_(module_folders(folder)) {
    for (const fs::path& component : component_folders(folder))
      components_.insert(component.generic_string());
  }

  /// @param under   a folder, relative
  /// @param module  all of its files belong to the model
  void visit(const fs::path& under, bool module) {
    for (const std::string& name : names_in(folder_ / under)) {
      const fs::path relative = under / name;
      std::error_code ignored;
      const fs::file_status status = fs::symlink_status(folder_ / relative, ignored);
      const bool hidden = name.starts_with('.') && (!whole_ || fs::is_directory(status));
      if (!whole_ && is_training_file(name))
        leave(relative);
      else if (hidden || (!whole_ && !is_plain_name(name)))
        continue;
      else if (!is_plain_name(name))
        leave(relative, "a name that is no text");
      else if (fs::is_directory(status) && (whole_ || !is_carried_name(name)))
        enter(relative, name, module);
      else if (fs::is_symlink(status) && fs::is_directory(folder_ / relative, ignored))
        leave(relative.generic_string() + "/", "a link to a folder");
      else if (goes_along(name) || (module && fs::is_regular_file(folder_ / relative, ignored)))
        carry(relative);
    }
  }

  const std::vector<LeftOut>& left() const { return left_; }

 private:
  bool goes_along(const std::string& name) const {
    return whole_ ? !is_weights_name(name) && !is_model_index(name) && !name.ends_with(".gbz")
                  : is_carried_name(name);
  }

  void leave(const fs::path& relative, const std::string& why = "") {
    left_.push_back({relative.generic_string(), 0, 0, why});
  }

  void enter(const fs::path& relative, const std::string& name, bool module) {
    const std::string path = relative.generic_string();
    if (components_.contains(path)) return;
    const bool listed = module || modules_.contains(path);
    const fs::path folder = folder_ / relative;
    if (is_training_folder(name))
      leave(path + "/");
    else if (depth_of(relative) >= kMaxCarriedDepth)
      leave(path + "/", "too deep");
    else if (!listed && (holds_weights(folder) || !artifacts_in(folder).empty()))
      leave(path + "/", "a model of its own");
    else
      visit(relative, listed);
  }

  void carry(const fs::path& relative) {
    const fs::path file = folder_ / relative;
    if (!is_plain_file(file, depth_of(relative))) return leave(relative, "not an ordinary file");
    const std::uint64_t size = fs::file_size(file);
    if (size > kMaxCarriedFile || total_ + size > kMaxCarriedBytes)
      return leave(relative, "above 64 MiB, or 256 MiB with the others");
    if (bundle_.carried.size() == kMaxCarriedCount)
      return leave(relative, "beyond the 1,000 files that are taken along");
    total_ += size;
    bundle_.carried.push_back(relative);
    if (size == 0) return;
    const std::string is = describe_stand_in(MappedFile(file).bytes());
    if (!is.empty() && !relative.filename().string().ends_with(".md"))
      bundle_.notes.push_back(printable(file.string()) + " " + is);
  }

  const fs::path& folder_;
  TensorBundle& bundle_;
  const bool whole_;
  const std::set<std::string> modules_;
  std::set<std::string> components_;  ///< whose files go along with them
  std::vector<LeftOut> left_;
  std::uint64_t total_ = 0;
};

}  // namespace

void find_carried(const fs::path& folder, TensorBundle& bundle, bool whole) {
  Walk walk(folder, bundle, whole);
  walk.visit({}, false);
  std::sort(bundle.carried.begin(), bundle.carried.end());
  if (walk.left().empty()) return;
  for (const LeftOut& each : walk.left()) bundle.left_out.push_back(each.name);
  bundle.notes.push_back("left out of the folder: " + left_out_text(walk.left()));
}

CarriedCopies::CarriedCopies(const fs::path& source, std::span<const fs::path> files,
                             const fs::path& folder, bool overwrite, std::string artifact)
    : artifact_(std::move(artifact)) {
  try {
    for (const fs::path& relative : files) add(source, relative, folder, overwrite);
  } catch (...) {
    forget();
    throw;
  }
}

void CarriedCopies::add(const fs::path& source, const fs::path& relative, const fs::path& folder,
                        bool overwrite) {
  if (relative.is_absolute() || std::find(relative.begin(), relative.end(), "..") != relative.end())
    throw Error(Errc::kUsage, printable(relative.string()) + " is not a file within a folder");
  const fs::path from = source / relative, to = folder / relative;
  std::error_code ignored;
  fs::path under = folder;
  for (const fs::path& part : relative.parent_path()) {
    under /= part;
    const fs::file_status status = fs::symlink_status(under, ignored);
    if (fs::is_directory(status)) continue;
    std::error_code error;
    if (!fs::exists(status) && fs::create_directory(under, error)) {
      made_.push_back(under);
      continue;
    }
    throw Error(Errc::kIo, printable(under.string()) +
                               (error                    ? " cannot be made: " + error.message()
                                : fs::is_symlink(status) ? " is a symbolic link and is not written"
                                                         : " is no folder"));
  }
  const bool link = fs::is_symlink(fs::symlink_status(to, ignored));
  if (!link && fs::equivalent(from, to, ignored)) return;  // a folder onto itself
  if (link)
    throw Error(Errc::kIo, printable(to.string()) + " is a symbolic link and is not written");
  if (!is_plain_file(from, depth_of(relative)))
    throw Error(Errc::kIo, printable(from.string()) + " is no ordinary file any more");
  auto copy = std::make_unique<AtomicFile>(to, overwrite);
  const std::vector<std::byte> bytes = read_file(from, kMaxCarriedFile);
  if (relative == kConfig) {
    const std::string_view config(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    const std::string text =
        artifact_.empty() ? without_packed_weights(config) : with_packed_weights(config, artifact_);
    copy->write(std::as_bytes(std::span(text)));
  } else {
    copy->write(bytes);
  }
  copies_.push_back(std::move(copy));
}

CarriedCopies::~CarriedCopies() { forget(); }

void CarriedCopies::forget() {
  copies_.clear();
  std::error_code ignored;  // a folder that something else was put into stays
  for (; !made_.empty(); made_.pop_back()) fs::remove(made_.back(), ignored);
}

std::size_t CarriedCopies::commit() {
  for (const auto& copy : copies_) copy->commit();
  made_.clear();
  return copies_.size();
}

}  // namespace gbcompress
