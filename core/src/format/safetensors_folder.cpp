#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/text.h"
#include "format/json_scan.h"
#include "format/safetensors.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kIndexEnd = ".safetensors.index.json";

class IndexHandler : public JsonHandler {
 public:
  explicit IndexHandler(const std::string& label) : label_(label) {}
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
    const bool plain = name.size() <= 255 && name.ends_with(".safetensors") &&
                       name.find_first_of("/\\") == std::string::npos && name == printable(name);
    if (!plain)
      fail("names the file " + printable(name.substr(0, 255)) +
           ", a plain name ending in .safetensors was expected");
  }

  const std::string& label_;
};

void add(TensorBundle& bundle, const fs::path& path) {
  auto file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  bundle.tensors.insert(bundle.tensors.end(), file->tensors().begin(), file->tensors().end());
  bundle.metadata.insert(file->metadata().begin(), file->metadata().end());
  bundle.owners.push_back(std::move(file));
  bundle.file_bytes += static_cast<std::int64_t>(fs::file_size(path));
}

void sort_by_name(TensorBundle& bundle, const std::string& label) {
  std::sort(bundle.tensors.begin(), bundle.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      bundle.tensors.begin(), bundle.tensors.end(),
      [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != bundle.tensors.end())
    throw Error(Errc::kCorrupt, label + ": tensor " + printable(twice->name) + " is in two files");
}

TensorBundle open_index(const fs::path& path) {
  const std::string label = printable(path.string());
  const MappedFile map(path);
  if (map.bytes().empty()) throw Error(Errc::kTruncated, label + " is empty");
  if (map.bytes().size() > kMaxSafetensorsHeader)
    throw Error(Errc::kLimit, label + " has more than 100,000,000 bytes");
  IndexHandler handler(label);
  scan_json({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()}, label, 16,
            handler);
  if (!handler.found) throw Error(Errc::kCorrupt, label + " has no weight_map");

  std::set<std::string> files;
  for (const auto& [tensor, file] : handler.file_of) files.insert(file);
  TensorBundle bundle;
  for (const std::string& file : files) {
    const std::size_t first = bundle.tensors.size();
    add(bundle, path.parent_path() / file);
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

TensorBundle open_folder(const fs::path& folder) {
  std::vector<fs::path> indices, files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.ends_with(kIndexEnd)) indices.push_back(at->path());
    if (name.ends_with(".safetensors")) files.push_back(at->path());
  }
  const std::string label = printable(folder.string());
  if (error) throw Error(Errc::kIo, label + " cannot be read: " + error.message());
  if (indices.size() > 1)
    throw Error(Errc::kUsage, label + " holds several index files; name one of them");
  if (indices.size() == 1) return open_index(indices.front());
  if (files.empty()) throw Error(Errc::kNotFound, label + " holds no .safetensors file");
  TensorBundle bundle;
  const fs::path usual = folder / "model.safetensors";
  if (std::find(files.begin(), files.end(), usual) != files.end()) files = {usual};
  std::sort(files.begin(), files.end());
  for (const fs::path& file : files) add(bundle, file);
  sort_by_name(bundle, label);
  return bundle;
}

}  // namespace

TensorBundle open_safetensors(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return open_folder(path);
  if (path.filename().string().ends_with(kIndexEnd)) return open_index(path);
  TensorBundle bundle;
  add(bundle, path);
  return bundle;
}

}  // namespace gbcompress
