#include <algorithm>
#include <new>

#include "base/digest.h"
#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/posix.h"
#include "gbcompress/checkpoint.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t kPiece = 1 << 20;  // bytes read at once while checking

bool agreed(const CheckpointRanks& ranks, bool ok) {
  return ranks.world > 1 ? ranks.agree(ok) : ok;
}

[[noreturn]] void corrupt(const fs::path& shard, const std::string& section) {
  throw Error(Errc::kCorrupt, printable(shard.string()) + " is damaged: the digest of " +
                                  printable(section) + " does not fit");
}

/// The candidates of `path`, newest last.
std::vector<fs::path> candidates(fs::path path) {
  std::error_code failed;
  if (fs::exists(path / kManifestName, failed)) {
    // "." and "DIR/step-.../" say no step.
    if (const fs::path whole = fs::canonical(path, failed); !failed) path = whole;
    return {path};
  }
  std::vector<fs::path> folders;
  for (const std::int64_t step : list_checkpoints(path)) folders.push_back(path / step_name(step));
  return folders;
}

}  // namespace

CheckpointReader CheckpointReader::open_folder(const fs::path& folder) {
  Manifest manifest = read_manifest(folder / kManifestName);
  if (const auto named = parse_step_name(folder.filename().string());
      named && *named != manifest.step)
    throw Error(Errc::kCorrupt, printable(folder.string()) + " holds the manifest of step " +
                                    std::to_string(manifest.step));
  CheckpointReader reader;
  reader.folder_ = folder;
  reader.step_ = manifest.step;
  reader.facts_ = std::move(manifest.facts);
  reader.identity_ = std::move(manifest.identity);
  for (std::size_t rank = 0; rank < manifest.shards.size(); ++rank) {
    const int number = static_cast<int>(rank);
    Shard shard;
    for (ShardEntry& entry : read_shard_table(folder / shard_name(number), number, manifest.step,
                                              manifest.shards[rank])) {
      shard.index.emplace(entry.name, shard.sections.size());
      shard.sections.push_back({std::move(entry.name), entry.bytes});
      shard.offsets.push_back(entry.offset);
      shard.digests.push_back(entry.xxh3);
    }
    reader.shards_.push_back(std::move(shard));
  }
  return reader;
}

void CheckpointReader::verify(int number) const {
  const Shard& shard = shard_at(number);
  const fs::path path = folder_ / shard_name(number);
  const FileHandle file = open_file(path);
  std::vector<std::byte> piece;
  for (std::size_t i = 0; i < shard.sections.size(); ++i) {
    Xxh3 hash;
    for (std::int64_t at = 0; at < shard.sections[i].bytes;) {
      piece.resize(
          static_cast<std::size_t>(std::min<std::int64_t>(kPiece, shard.sections[i].bytes - at)));
      read_all(file, shard.offsets[i] + at, piece, path);
      hash.update(piece);
      at += static_cast<std::int64_t>(piece.size());
    }
    if (hash.value() != shard.digests[i]) corrupt(path, shard.sections[i].name);
  }
}

CheckpointReader CheckpointReader::open(const fs::path& path, const CheckpointRanks& ranks,
                                        const std::function<void(const std::string&)>& warn) {
  if (ranks.world > 1 && !ranks.agree)
    throw Error(Errc::kUsage, "several ranks need an agreement to open a checkpoint");
  std::vector<fs::path> left;
  std::exception_ptr unlisted;
  try {
    left = candidates(path);
  } catch (const std::exception&) {
    unlisted = std::current_exception();
  }
  const bool all_have = agreed(ranks, !left.empty());
  if (unlisted) std::rethrow_exception(unlisted);
  if (!all_have)
    throw Error(Errc::kNotFound,
                printable(path.string()) + (left.empty() ? " holds no checkpoint"
                                                         : " holds no checkpoint for other ranks"));
  std::string newest_failure;
  while (true) {
    const fs::path folder = left.back();
    left.pop_back();
    std::string failure;
    Errc code = Errc::kFailure;
    CheckpointReader reader;
    try {
      reader = open_folder(folder);
      for (int shard = ranks.rank; shard < reader.world(); shard += ranks.world)
        reader.verify(shard);
    } catch (const Error& error) {
      failure = error.what();
      code = error.code();
    } catch (const std::bad_alloc&) {
      failure = printable(folder.string()) + " needs more memory than there is";
    }
    const bool whole = agreed(ranks, failure.empty());
    if (whole) {
      if (warn && !newest_failure.empty())
        warn(newest_failure + "; step " + std::to_string(reader.step()) + " is used instead");
      return reader;
    }
    if (failure.empty())
      failure = printable(folder.string()) + " is damaged, as another rank reported";
    // An older one would be a silent way back for what is not damaged at all.
    if (code == Errc::kUnsupported) throw Error(code, failure);
    newest_failure += (newest_failure.empty() ? "" : "; ") + failure;
    if (!agreed(ranks, !left.empty()))
      throw Error(Errc::kCorrupt,
                  "no checkpoint in " + printable(path.string()) + " is whole: " + newest_failure);
  }
}

const CheckpointReader::Shard& CheckpointReader::shard_at(int shard) const {
  if (shard < 0 || shard >= world())
    throw Error(Errc::kUsage, printable(folder_.string()) + " has shards 0 to " +
                                  std::to_string(world() - 1) + ", not " + std::to_string(shard));
  return shards_[static_cast<std::size_t>(shard)];
}

std::size_t CheckpointReader::find(int shard, const std::string& name) const {
  const auto& index = shard_at(shard).index;
  const auto found = index.find(name);
  if (found == index.end())
    throw Error(Errc::kNotFound, printable((folder_ / shard_name(shard)).string()) +
                                     " has no section " + printable(name));
  return found->second;
}

const std::vector<CheckpointReader::Section>& CheckpointReader::sections(int shard) const {
  return shard_at(shard).sections;
}

bool CheckpointReader::has(int shard, const std::string& name) const {
  return shard_at(shard).index.contains(name);
}

void CheckpointReader::read_into(int shard, const std::string& name,
                                 std::span<std::byte> out) const {
  const std::size_t i = find(shard, name);
  const Shard& of = shard_at(shard);
  const fs::path path = folder_ / shard_name(shard);
  if (static_cast<std::int64_t>(out.size()) != of.sections[i].bytes)
    throw Error(Errc::kShapeMismatch, printable(path.string()) + ": " + printable(name) + " has " +
                                          std::to_string(of.sections[i].bytes) +
                                          " bytes, there is room for " +
                                          std::to_string(out.size()));
  const FileHandle file = open_file(path);
  read_all(file, of.offsets[i], out, path);
  if (xxh3_64(out) != of.digests[i]) corrupt(path, name);
}

std::vector<std::byte> CheckpointReader::read(int shard, const std::string& name) const {
  // The size was checked against the file's when it was opened, so this is no bomb.
  const auto bytes = shard_at(shard).sections[find(shard, name)].bytes;
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  read_into(shard, name, out);
  return out;
}

}  // namespace gbcompress
