#include "gbcompress/expanded_folder.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "base/file.h"
#include "format/folder/packed_config.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

using Kind = FolderEntry::Kind;

constexpr std::size_t kMostEntries = 100'000;
constexpr std::size_t kMostConfig = std::size_t{64} << 20;  ///< bytes; a larger one is no config

/// Bases that were opened, by their digests, so that the deltas of one share its memory.
class Bases {
 public:
  std::vector<BaseModel> find(const ArtifactReader& delta) {
    const std::lock_guard lock(mutex_);
    const auto found = opened_.find(delta.bases());
    if (found != opened_.end()) return found->second;
    return opened_.emplace(delta.bases(), BaseModel::beside(delta)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::vector<std::string>, std::vector<BaseModel>> opened_;
};

bool is_packed(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.path().extension() == ".gbz" && entry.is_regular_file(ignored);
}

std::vector<fs::directory_entry> files_in(const fs::path& folder) {
  std::vector<fs::directory_entry> found;
  std::error_code failed;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed))
    found.push_back(*at);
  if (failed)
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be read: " + failed.message());
  std::ranges::sort(found);
  return found;
}

}  // namespace

struct ExpandedFolder::Impl {
  /// What a kExpanded or kText entry is read from.
  struct Source {
    std::size_t model = 0, file = 0;
    std::shared_ptr<const std::string> text = {};
  };

  std::size_t add(std::size_t parent, Kind kind, std::string name, fs::path source,
                  std::int64_t bytes, Source from) {
    const auto [other, is_new] = named.try_emplace({parent, name}, entries.size());
    if (!is_new)
      throw Error(Errc::kUsage, printable(entries[other->second].source.string()) + " and " +
                                    printable(source.string()) + " would both give the name " +
                                    printable(name) + "; move one of them to another folder");
    if (entries.size() == kMostEntries)
      throw Error(Errc::kLimit, printable(entries[0].source.string()) + " holds more than " +
                                    std::to_string(kMostEntries) + " files and folders");
    entries[parent].children.push_back(entries.size());
    entries.push_back({kind, std::move(name), std::move(source), bytes, parent});
    sources.push_back(std::move(from));
    return entries.size() - 1;
  }

  /// The folder of that name, which is made where it is missing.
  std::size_t folder_in(std::size_t parent, const std::string& name, const fs::path& source) {
    const auto found = named.find({parent, name});
    if (found != named.end() && entries[found->second].kind == Kind::kFolder) return found->second;
    return add(parent, Kind::kFolder, name, source, 0, {});
  }

  void add_packed(std::size_t parent, const fs::path& file, bool alone, const DecodedCache& cache) {
    const auto found = [shared = bases](const ArtifactReader& delta) {
      return shared->find(delta);
    };
    const ExpandedFiles files(file, cache, {.own_name = alone, .bases = found});
    if (!alone && files.files().size() > 1)
      parent = add(parent, Kind::kFolder, file.stem().string(), file, 0, {});
    for (std::size_t i = 0; i < files.files().size(); ++i) {
      const auto& [name, bytes] = files.files()[i];
      std::size_t folder = parent;
      for (const fs::path& part : fs::path(name).parent_path())
        folder = folder_in(folder, part.string(), file);
      add(folder, Kind::kExpanded, fs::path(name).filename().string(), file, bytes,
          {models.size(), i});
    }
    models.push_back(files);
  }

  void add_config(std::size_t parent, const fs::path& file) {
    auto text =
        std::make_shared<const std::string>(without_packed_weights(read_text(file, kMostConfig)));
    const auto bytes = static_cast<std::int64_t>(text->size());
    add(parent, Kind::kText, file.filename().string(), file, bytes, {.text = std::move(text)});
  }

  void add_plain(std::size_t parent, const fs::directory_entry& entry, bool beside_packed,
                 const DecodedCache& cache) {
    std::error_code ignored;
    const std::string name = entry.path().filename().string();
    if (entry.is_symlink(ignored) && !entry.is_regular_file(ignored)) {
      add(parent, Kind::kLink, name, entry.path(), 0, {});
    } else if (entry.is_directory(ignored)) {
      add_folder(add(parent, Kind::kFolder, name, entry.path(), 0, {}), cache);
    } else if (entry.is_regular_file(ignored)) {  // no devices, pipes or sockets
      const auto bytes = static_cast<std::int64_t>(entry.file_size(ignored));
      const bool config =
          beside_packed && name == "config.json" && bytes <= static_cast<std::int64_t>(kMostConfig);
      if (config)
        add_config(parent, entry.path());
      else
        add(parent, Kind::kFile, name, entry.path(), bytes, {});
    }
  }

  void add_folder(std::size_t at, const DecodedCache& cache) {
    const auto files = files_in(entries[at].source);
    const auto packed = std::ranges::count_if(files, is_packed);
    for (const fs::directory_entry& entry : files)
      if (!is_packed(entry)) add_plain(at, entry, packed > 0, cache);
    for (const fs::directory_entry& entry : files)
      if (is_packed(entry)) add_packed(at, entry.path(), packed == 1, cache);
  }

  std::vector<FolderEntry> entries;
  std::vector<Source> sources;                                       ///< of each entry
  std::map<std::pair<std::size_t, std::string>, std::size_t> named;  ///< by folder and name
  std::vector<ExpandedFiles> models;
  std::shared_ptr<Bases> bases = std::make_shared<Bases>();
};

ExpandedFolder::ExpandedFolder(const fs::path& folder, const DecodedCache& cache) {
  const auto made = std::make_shared<Impl>();
  made->entries.push_back({.source = folder});
  made->sources.emplace_back();
  std::error_code ignored;
  const auto status = fs::status(folder, ignored);
  if (!fs::exists(status))
    throw Error(Errc::kNotFound, printable(folder.string()) + " does not exist");
  if (fs::is_directory(status))
    made->add_folder(0, cache);
  else
    made->add_packed(0, folder, true, cache);
  if (made->models.empty())
    throw Error(Errc::kNotFound, printable(folder.string()) +
                                     " is a folder that holds no .gbz file; use it as it is, or "
                                     "compress it first");
  for (FolderEntry& entry : made->entries)
    std::ranges::sort(entry.children, {},
                      [&](std::size_t child) { return made->entries[child].name; });
  impl_ = made;
}

const std::vector<FolderEntry>& ExpandedFolder::entries() const noexcept { return impl_->entries; }

std::vector<HeldBytes> ExpandedFolder::pieces(std::size_t entry, std::int64_t offset,
                                              std::int64_t bytes) const {
  const Kind kind = entry < entries().size() ? entries()[entry].kind : Kind::kFolder;
  if (kind != Kind::kExpanded && kind != Kind::kText)
    throw Error(Errc::kUsage, "there is no such file to expand");
  const Impl::Source& from = impl_->sources[entry];
  if (kind == Kind::kExpanded) return impl_->models[from.model].pieces(from.file, offset, bytes);
  const auto all = std::as_bytes(std::span(*from.text));
  const auto size = static_cast<std::int64_t>(all.size());
  if (offset < 0 || bytes < 0 || offset >= size) return {};
  return {{all.subspan(static_cast<std::size_t>(offset),
                       static_cast<std::size_t>(std::min(bytes, size - offset))),
           from.text}};
}

}  // namespace gbcompress
