#include "format/carried_files.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "base/file.h"
#include "base/folder.h"
#include "format/left_out.h"
#include "format/model_folder.h"
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

bool is_training_file(std::string_view name) {
  return name.starts_with("rng_state") ||
         std::find(std::begin(kTraining), std::end(kTraining), name) != std::end(kTraining);
}

bool is_carried_name(const std::string& name) {
  if (name.empty() || name.front() == '.' || name.size() > 255 || name != printable(name) ||
      is_model_index(name) || is_training_file(name))
    return false;
  if (name.starts_with("LICENSE") || name.starts_with("NOTICE")) return true;
  return std::any_of(std::begin(kCarriedEnds), std::end(kCarriedEnds),
                     [&](std::string_view end) { return name.ends_with(end); });
}

/// Hugging Face's cache keeps every file as a link "../../blobs/DIGEST". Other links could bring
/// any file of this machine into the output.
bool is_cache_link(const fs::path& path) {
  constexpr std::string_view kBlobs = "../../blobs/";
  std::error_code error;
  const std::string target = fs::read_symlink(path, error).string();
  if (error || !target.starts_with(kBlobs)) return false;
  const std::string_view digest = std::string_view(target).substr(kBlobs.size());
  return digest.size() >= 32 && std::all_of(digest.begin(), digest.end(),
                                            [](unsigned char c) { return std::isxdigit(c) != 0; });
}

bool is_plain_file(const fs::path& path) {
  std::error_code ignored;
  const fs::file_status status = fs::symlink_status(path, ignored);
  return fs::is_regular_file(status) ||
         (fs::is_symlink(status) && is_cache_link(path) && fs::is_regular_file(path, ignored));
}

}  // namespace

void find_carried(const fs::path& folder, TensorBundle& bundle) {
  std::vector<LeftOut> left;
  std::uint64_t total = 0;
  std::error_code error;
  for (const std::string& name : names_in(folder)) {
    const fs::path file = folder / name;
    if (is_training_file(name)) left.push_back({name});
    if (!is_carried_name(name)) continue;
    const std::uint64_t size = is_plain_file(file) ? fs::file_size(file, error) : 0;
    if (!is_plain_file(file)) {
      left.push_back({name, 0, 0, "not an ordinary file"});
    } else if (size > kMaxCarriedFile || total + size > kMaxCarriedFiles) {
      left.push_back({name, 0, 0, "above 64 MiB, or 256 MiB with the others"});
    } else {
      total += size;
      bundle.carried.push_back(file);
    }
  }
  if (left.empty()) return;
  for (const LeftOut& each : left) bundle.left_out.push_back(each.name);
  bundle.notes.push_back("left out of the folder: " + left_out_text(left));
}

CarriedCopies::CarriedCopies(std::span<const fs::path> files, const fs::path& folder,
                             bool overwrite) {
  for (const fs::path& from : files) {
    const fs::path to = folder / from.filename();
    std::error_code ignored;
    const bool link = fs::is_symlink(fs::symlink_status(to, ignored));
    if (!link && fs::equivalent(from, to, ignored)) continue;  // a folder onto itself
    if (link)
      throw Error(Errc::kIo, printable(to.string()) + " is a symbolic link and is not written");
    if (!is_plain_file(from))
      throw Error(Errc::kIo, printable(from.string()) + " is no ordinary file any more");
    auto copy = std::make_unique<AtomicFile>(to, overwrite);
    copy->write(read_file(from, kMaxCarriedFile));
    copies_.push_back(std::move(copy));
  }
}

std::size_t CarriedCopies::commit() {
  for (const auto& copy : copies_) copy->commit();
  return copies_.size();
}

}  // namespace gbcompress
