#include "format/model_folder.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "format/file_kind.h"
#include "format/folder/carried_files.h"
#include "format/folder/left_out.h"
#include "format/folder/weight_files.h"
#include "format/safetensors/json_scan.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/state_dict.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

/// @param end  of the files that it lists
bool is_index_of(std::string_view name, std::string_view end) {
  const std::size_t at = name.rfind(std::string(end).append(kIndexMark));
  return at != std::string_view::npos && at > 0 && name.ends_with(".json");
}

class IndexHandler : public JsonHandler {
 public:
  /// @param end  of the files' names
  IndexHandler(const std::string& label, std::string_view end) : label_(label), end_(end) {}
  std::map<std::string, std::string> file_of;  ///< tensor to file
  bool found = false;

  void begin(JsonFrames frames, bool object) override {
    if (frames.empty() && !object) fail("is not a JSON object");
    if (!mapping(frames)) return;
    if (frames.size() != 1 || !object) fail("has a weight_map that is not names to file names");
    found = true;
  }
  void end(JsonFrames) override {}
  void text(JsonFrames frames, std::string& value) override {
    if (!mapping(frames)) return;
    if (frames.size() != 2) fail("has a weight_map that is not names to file names");
    check_tensor_name(frames[1].key, label_);
    check_plain(value);
    if (file_of.size() == kMaxTensors)
      throw Error(Errc::kLimit, label_ + " lists more than 1,000,000 tensors");
    file_of.emplace(frames[1].key, std::move(value));
  }
  void whole(JsonFrames frames, std::uint64_t) override { other(frames); }
  void other(JsonFrames frames) override {
    if (mapping(frames)) fail("has a weight_map that is not names to file names");
  }

 private:
  static bool mapping(JsonFrames frames) {
    return !frames.empty() && frames[0].key == "weight_map";
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + " " + what);
  }
  /// A file name must stay in the index's own folder.
  void check_plain(const std::string& name) const {
    const bool plain = name.size() <= 255 && name.ends_with(end_) &&
                       name.find_first_of("/\\") == std::string::npos && name == printable(name);
    if (!plain)
      fail("names the file " + printable(name.substr(0, 255)) + ", a plain name ending in " +
           std::string(end_) + " was expected");
  }

  const std::string& label_;
  const std::string_view end_;
};

void add(TensorBundle& bundle, const fs::path& path, const OpenOptions& options) {
  TensorBundle file =
      path.extension() == kSafetensorsEnd ? open_safetensors(path) : read_state_dict(path, options);
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(bundle.tensors, file.tensors);
  append(bundle.owners, file.owners);
  append(bundle.notes, file.notes);
  append(bundle.left_out, file.left_out);
  append(bundle.contents, file.contents);
  bundle.metadata.insert(file.metadata.begin(), file.metadata.end());
  bundle.file_bytes += static_cast<std::int64_t>(fs::file_size(path));
  bundle.files.push_back(path);
}

/// All that are not there, in one sentence.
void check_present(const std::set<std::string>& files, const fs::path& folder,
                   const std::string& label) {
  constexpr std::size_t kShown = 8;
  std::vector<std::string> missing;
  std::error_code ignored;
  for (const std::string& file : files)
    if (!fs::exists(folder / file, ignored)) missing.push_back(file);
  if (missing.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(kShown, missing.size()); ++i)
    names += (i > 0 ? ", " : "") + missing[i];
  if (missing.size() > kShown) names += " and more";
  throw Error(Errc::kNotFound, label + " names " + std::to_string(files.size()) + " files, " +
                                   std::to_string(missing.size()) +
                                   (missing.size() == 1 ? " does" : " do") +
                                   " not exist beside it: " + names);
}

TensorBundle open_index(const fs::path& path) {
  const std::string label = printable(path.string());
  const auto owner = std::make_shared<const MappedFile>(path);
  const MappedFile& map = *owner;
  if (map.bytes().empty()) throw Error(Errc::kTruncated, label + " is empty");
  if (map.bytes().size() > kMaxSafetensorsHeader)
    throw Error(Errc::kLimit, label + " has more than 100,000,000 bytes");
  refuse_stand_in(map.bytes(), label);
  const bool pickled = is_index_of(path.filename().string(), kPickledEnd);
  IndexHandler handler(label, pickled ? kPickledEnd : kSafetensorsEnd);
  scan_json({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()}, label, 16,
            handler);
  if (!handler.found) throw Error(Errc::kCorrupt, label + " has no weight_map");

  std::set<std::string> files;
  for (const auto& [tensor, file] : handler.file_of) files.insert(file);
  check_present(files, path.parent_path(), label);
  TensorBundle bundle;
  bundle.files.push_back(path);
  bundle.contents.push_back(map.bytes());
  bundle.owners.push_back(owner);
  // Shards are parts of one flat dictionary: nothing in them is to be looked for.
  const OpenOptions whole{.keep_all = true};
  for (const std::string& file : files) {
    const std::size_t first = bundle.tensors.size();
    add(bundle, path.parent_path() / file, whole);
    for (std::size_t i = first; i < bundle.tensors.size(); ++i) {
      const auto listed = handler.file_of.find(bundle.tensors[i].name);
      if (listed == handler.file_of.end() || listed->second != file)
        throw Error(Errc::kCorrupt, label + " does not list tensor " +
                                        printable(bundle.tensors[i].name) + " of " + file);
      handler.file_of.erase(listed);
    }
  }
  if (!handler.file_of.empty()) {
    const auto& [tensor, file] = *handler.file_of.begin();
    throw Error(Errc::kCorrupt,
                label + " lists tensor " + printable(tensor) + ", which " + file + " lacks");
  }
  sort_by_name(bundle, label);
  return bundle;
}

/// Files that no name tells to be parts of one model, or copies of it.
void refuse_copies(const TensorBundle& bundle, const std::string& label,
                   const std::vector<std::string>& files) {
  std::set<std::string_view> names;
  for (const TensorEntry& tensor : bundle.tensors)
    if (!names.insert(tensor.name).second)
      throw Error(Errc::kUsage,
                  label + " holds tensor " + printable(tensor.name) +
                      " in several files, which are copies or variants: " + names_text(files) +
                      "; name the one to read, or give each as an input of its own");
}

/// Names files of weights that are not read.
void tell_others(TensorBundle& bundle, std::vector<std::string> others) {
  std::erase_if(others, [&](const std::string& name) {
    return std::any_of(bundle.files.begin(), bundle.files.end(),
                       [&](const fs::path& file) { return file.filename() == name; });
  });
  if (others.empty()) return;
  std::vector<std::string> read;
  for (const fs::path& file : bundle.files) read.push_back(file.filename().string());
  bundle.notes.push_back("the weights are read from " + names_text(read) +
                         "; left behind as other copies or variants: " + names_text(others) +
                         " (name such a file to read it)");
}

TensorBundle open_folder(const fs::path& folder, const OpenOptions& options) {
  const std::string label = printable(folder.string());
  FolderWeights found = weights_in(folder);
  TensorBundle bundle;
  if (!found.chosen.index.empty()) {
    bundle = open_index(folder / found.chosen.index);
    for (const auto* list : {&found.chosen.whole, &found.chosen.parts})
      found.others.insert(found.others.end(), list->begin(), list->end());
    tell_others(bundle, std::move(found.others));
    return bundle;
  }
  const bool together = !found.together.empty();
  const auto& parts = together                     ? found.together
                      : found.chosen.whole.empty() ? found.chosen.parts
                                                   : found.chosen.whole;
  for (const std::string& file : parts) add(bundle, folder / file, options);
  if (together) {
    refuse_copies(bundle, label, parts);
    bundle.notes.push_back("read as the parts of one model: " + names_text(parts));
  }
  tell_others(bundle, std::move(found.others));
  sort_by_name(bundle, label);
  return bundle;
}

}  // namespace

bool keep_carried(const fs::path& folder, TensorBundle& bundle) {
  if (bundle.contents.empty() || bundle.contents.size() != bundle.files.size()) return false;
  for (const fs::path& name : bundle.carried) {
    auto file = std::make_shared<const MappedFile>(folder / name);
    bundle.files.push_back(folder / name);
    bundle.contents.push_back(file->bytes());
    bundle.file_bytes += static_cast<std::int64_t>(file->bytes().size());
    bundle.owners.push_back(std::move(file));
  }
  bundle.carried.clear();
  return true;
}

bool is_model_index(std::string_view name) {
  return is_index_of(name, kSafetensorsEnd) || is_index_of(name, kPickledEnd);
}

TensorBundle open_model_folder(const fs::path& path, const OpenOptions& options) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  TensorBundle bundle = folder ? open_folder(path, options) : open_index(path);
  if (folder) find_carried(path, bundle, options.whole_folder);
  return bundle;
}

}  // namespace gbcompress
