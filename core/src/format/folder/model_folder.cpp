#include "format/model_folder.h"

#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/folder.h"
#include "format/file_kind.h"
#include "format/folder/carried_files.h"
#include "format/safetensors/json_scan.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/state_dict.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kSafetensors = ".safetensors", kPickled = ".bin";
constexpr const char* kPickledModel = "pytorch_model.bin";
constexpr std::string_view kIndexEnd = ".index.json";

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
      path.extension() == kSafetensors ? open_safetensors(path) : read_state_dict(path, options);
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(bundle.tensors, file.tensors);
  append(bundle.owners, file.owners);
  append(bundle.notes, file.notes);
  append(bundle.left_out, file.left_out);
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
  const MappedFile map(path);
  if (map.bytes().empty()) throw Error(Errc::kTruncated, label + " is empty");
  if (map.bytes().size() > kMaxSafetensorsHeader)
    throw Error(Errc::kLimit, label + " has more than 100,000,000 bytes");
  refuse_stand_in(map.bytes(), label);
  const bool pickled = path.filename().string().ends_with(std::string(kPickled) += kIndexEnd);
  IndexHandler handler(label, pickled ? kPickled : kSafetensors);
  scan_json({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()}, label, 16,
            handler);
  if (!handler.found) throw Error(Errc::kCorrupt, label + " has no weight_map");

  std::set<std::string> files;
  for (const auto& [tensor, file] : handler.file_of) files.insert(file);
  check_present(files, path.parent_path(), label);
  TensorBundle bundle;
  bundle.files.push_back(path);
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

/// What a folder holds that may be weights.
struct Listing {
  std::vector<fs::path> indices, pickled_indices, files;
};

Listing list(const fs::path& folder) {
  Listing result;
  for (const std::string& name : names_in(folder)) {
    if (is_model_index(name))
      (name.ends_with(".bin.index.json") ? result.pickled_indices : result.indices)
          .push_back(folder / name);
    if (name.ends_with(kSafetensors)) result.files.push_back(folder / name);
  }
  return result;
}

TensorBundle open_folder(const fs::path& folder, const OpenOptions& options) {
  const std::string label = printable(folder.string());
  Listing found = list(folder);
  const auto only = [&](const std::vector<fs::path>& indices) {
    if (indices.size() > 1)
      throw Error(Errc::kUsage, label + " holds several index files; name one of them");
    return open_index(indices.front());
  };
  if (!found.indices.empty()) return only(found.indices);
  TensorBundle bundle;
  if (!found.files.empty()) {
    const fs::path usual = folder / "model.safetensors";
    if (std::find(found.files.begin(), found.files.end(), usual) != found.files.end())
      found.files = {usual};
    for (const fs::path& file : found.files) add(bundle, file, options);
  } else if (!found.pickled_indices.empty()) {
    return only(found.pickled_indices);
  } else {
    const fs::path pickled = folder / kPickledModel;
    std::error_code ignored;
    if (!fs::exists(pickled, ignored))
      throw Error(Errc::kNotFound,
                  label + " holds no .safetensors file, no pytorch_model.bin and no index of them");
    add(bundle, pickled, options);
  }
  sort_by_name(bundle, label);
  return bundle;
}

}  // namespace

bool is_model_index(std::string_view name) noexcept {
  return name.ends_with(".safetensors.index.json") || name.ends_with(".bin.index.json");
}

bool holds_weights(const fs::path& folder) {
  const Listing found = list(folder);
  std::error_code ignored;
  return !found.indices.empty() || !found.files.empty() || !found.pickled_indices.empty() ||
         fs::exists(folder / kPickledModel, ignored);
}

TensorBundle open_model_folder(const fs::path& path, const OpenOptions& options) {
  std::error_code ignored;
  const bool folder = fs::is_directory(path, ignored);
  TensorBundle bundle = folder ? open_folder(path, options) : open_index(path);
  if (folder) find_carried(path, bundle);
  return bundle;
}

}  // namespace gbcompress
