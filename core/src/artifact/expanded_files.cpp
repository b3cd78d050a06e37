#include "gbcompress/expanded_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "artifact/file_digest.h"
#include "artifact/file_segments.h"
#include "artifact/kept_files.h"
#include "artifact/model_files.h"
#include "artifact/part_cache.h"
#include "artifact/safetensors_shards.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kLeastCache = std::int64_t{1} << 20;
/// Decoded ahead of a sequential read, from the first to the most.
constexpr std::int64_t kFirstAhead = std::int64_t{1} << 20, kMostAhead = std::int64_t{8} << 20;
/// Decoded while the digest is checked, which takes as long as decoding about as much as this.
constexpr std::int64_t kMostBeforeCheck = std::int64_t{128} << 20;
/// Sequential reads of one file that are told apart.
constexpr std::size_t kStreams = 4;

/// The stem of "m.gbz".
std::string stem_of(const fs::path& artifact) { return artifact.stem().string(); }

/// A safetensors file of all tensors.
ContainerFile tensors_file(const ArtifactReader& artifact, std::string name) {
  std::vector<TensorEntry> entries;
  std::vector<std::size_t> all;
  for (const ArtifactTensor& tensor : artifact.tensors()) {
    all.push_back(entries.size());
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  return whole_file(safetensors_file(entries, all, std::move(name)), artifact.tensors(),
                    label_of(artifact));
}

struct Kept {
  std::vector<ContainerFile> files;
  std::vector<OriginalFile> originals;
};

/// The files that `expand` writes.
Kept files_of(const ArtifactReader& artifact, bool own_name, const DecodeOptions& options) {
  const std::string stem = stem_of(artifact.path());
  if (auto originals = kept_originals(artifact)) {
    Kept kept{whole_files(artifact, *originals), std::move(originals->files)};
    std::string& first = kept.files.front().name;
    if (!own_name && kept.files.size() == 1) first = stem + fs::path(first).extension().string();
    return kept;
  }
  const auto info = container_of(artifact);
  if (!info) return {{tensors_file(artifact, stem + ".safetensors")}, {}};
  const std::string name = stem + "." + info->format;
  Kept kept{kept_container(artifact, name, options)->files, {}};
  for (ContainerFile& file : kept.files)
    if (file.name.empty()) file.name = name;
  return kept;
}

/// What tells whether a file was written to since.
struct FileState {
  dev_t device;
  ino_t node;
  off_t bytes;
  timespec changed;

  explicit FileState(const struct stat& of)
      : device(of.st_dev), node(of.st_ino), bytes(of.st_size), changed(of.st_mtim) {}
  /// Of another file under the same name, the first one is still mapped as it was.
  bool was_written(const FileState& since) const {
    return device == since.device && node == since.node &&
           (bytes != since.bytes || changed.tv_sec != since.changed.tv_sec ||
            changed.tv_nsec != since.changed.tv_nsec);
  }
};

std::optional<FileState> state_of(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return {};
  return FileState(status);
}

/// Sequential reads of one file.
class Streams {
 public:
  /// @param first, last  segments of a read
  /// @return bytes to decode ahead behind the last one, 0 for reads that are not sequential, and
  ///         within a segment
  std::int64_t ahead(std::size_t first, std::size_t last) {
    const std::lock_guard lock(mutex_);
    for (Stream& stream : streams_) {
      // Reads of one program come in another order where the kernel reads ahead itself.
      if (first > stream.next || last + 2 < stream.next) continue;
      if (last < stream.next) return 0;
      stream.next = last + 1;
      stream.ahead = std::min(kMostAhead, std::max(kFirstAhead, 2 * stream.ahead));
      return stream.ahead;
    }
    streams_[turn_++ % kStreams] = {last + 1, 0};
    return 0;
  }

 private:
  struct Stream {
    std::size_t next = static_cast<std::size_t>(-1);
    std::int64_t ahead = 0;
  };
  std::mutex mutex_;
  std::array<Stream, kStreams> streams_{};
  std::size_t turn_ = 0;
};

std::uint64_t new_owner() {
  static std::atomic<std::uint64_t> next = 0;
  return next++;
}

}  // namespace

struct DecodedCache::Impl : PartCache {
  using PartCache::PartCache;
};

DecodedCache::DecodedCache(std::int64_t bytes, int threads) {
  if (bytes < kLeastCache || threads < 0)
    throw Error(Errc::kUsage,
                "a cache of decoded stripes must have at least 1 MiB (1048576), got " +
                    std::to_string(bytes));
  impl_ = std::make_shared<Impl>(bytes, threads > 0 ? threads : usable_processors());
}

std::int64_t DecodedCache::held() const { return impl_->held(); }
std::int64_t DecodedCache::decoded() const { return impl_->made(); }

struct ExpandedFiles::Impl : std::enable_shared_from_this<Impl> {
  Impl(const fs::path& path, std::shared_ptr<PartCache> parts, const Options& options)
      : state(state_of(path)),
        artifact(ArtifactReader::open(path, options.limits, DigestCheck::kWhileDecoding)),
        owner(new_owner()),
        cache(std::move(parts)),
        bases(options.bases) {
    for (const ArtifactTensor& tensor : artifact.tensors())
      if (!is_placed(tensor))
        throw Error(Errc::kUnsupported, label_of(artifact) + ": " + printable(tensor.name) +
                                            " is built by layer type " +
                                            printable(tensor.spec.type_id) +
                                            ", whose plugin is needed; expand the file");
    DecodeOptions decode;
    if (!artifact.bases().empty())
      decode.base = [this](const BaseRange& range) { return before(range); };
    Kept kept = files_of(artifact, options.own_name, decode);
    segments.emplace(artifact, std::move(kept.files), std::move(kept.originals), decode);
    for (const SegmentedFile& file : segments->files()) files.push_back({file.name, file.bytes});
    streams = std::vector<Streams>(files.size());
  }

  std::span<const std::byte> before(const BaseRange& range) const {
    std::call_once(based, [&] {
      source = base_source(artifact, bases ? bases(artifact) : BaseModel::beside(artifact));
    });
    return source(range);
  }

  void check_unchanged() const {
    const auto now = state_of(artifact.path());
    if (now && state && state->was_written(*now))
      throw Error(Errc::kCorrupt,
                  label_of(artifact) + " was written to since it was opened; open it again");
    check_mapped_inputs();
  }

  HeldBytes made(std::size_t part) const {
    HeldBytes held = blame_damage(artifact, [&] { return segments->make(part); });
    check_unchanged();
    return held;
  }

  PartCache::Part cached(const FileSegment& segment) const {
    return {{owner, segment.part}, segment.bytes, [self = shared_from_this(), part = segment.part] {
              return self->made(part);
            }};
  }

  HeldBytes held(const FileSegment& segment) const {
    if (!segment.at) return cache->get(cached(segment));
    check_unchanged();
    return {{segment.at, static_cast<std::size_t>(segment.bytes)}, shared_from_this()};
  }

  void decode_ahead(const SegmentedFile& file, std::size_t from, std::int64_t bytes) const {
    // Half of the cache is left to what was read.
    bytes = std::min(bytes, cache->most() / 2);
    for (std::size_t i = from; i < file.segments.size() && bytes > 0; ++i) {
      const FileSegment& segment = file.segments[i];
      bytes -= segment.bytes;
      if (!segment.at && segment.bytes <= cache->most() / 2) cache->ahead(cached(segment));
    }
  }

  /// Behind a sequential read, so that its stripes use the same memory again and again, which
  /// stays in the processor's caches.
  void drop_behind(const SegmentedFile& file, std::size_t at) const {
    constexpr std::size_t kKept = 4,
                          kDropped = 12;  // others of the same reader are a little behind
    for (std::size_t i = at < kDropped ? 0 : at - kDropped; i + kKept < at; ++i)
      if (!file.segments[i].at) cache->drop({owner, file.segments[i].part});
  }

  /// Before the first byte is given. The other processors decode meanwhile, from the place that is
  /// read, what is probably read next.
  void check(const SegmentedFile& file, std::size_t first) const {
    if (checked) return;
    decode_ahead(file, first, kMostBeforeCheck);
    artifact.check_digest();
    if (!checked.exchange(true)) cache->forget_ahead(owner);
  }

  /// What a message says of a segment.
  std::string place(const SegmentedFile& file, const FileSegment& segment) const {
    const auto& all = file.segments;
    const auto at = std::ranges::lower_bound(all, segment.begin, {}, &FileSegment::begin);
    const auto of_tensor = [](const FileSegment& each) { return each.tensor.has_value(); };
    const auto tensor = std::find_if(at, all.end(), of_tensor);
    const std::string name = printable(file.name);
    if (tensor == all.end()) return name + ", behind its tensors";
    return name + (tensor == at ? ", tensor " : ", in front of tensor ") +
           printable(artifact.tensors()[*tensor->tensor].name);
  }

  std::optional<FileState> state;
  ArtifactReader artifact;
  std::uint64_t owner;
  std::shared_ptr<PartCache> cache;
  std::function<std::vector<BaseModel>(const ArtifactReader&)> bases;
  mutable std::optional<FileSegments> segments;  ///< its make() is thread-safe
  std::vector<File> files;
  mutable std::vector<Streams> streams;
  mutable std::atomic<bool> checked = false;
  mutable std::once_flag based;
  mutable BaseSource source;
};

ExpandedFiles::ExpandedFiles(const fs::path& artifact, const DecodedCache& cache,
                             const Options& options)
    : impl_(std::make_shared<const Impl>(artifact, cache.impl_, options)) {}

const std::vector<ExpandedFiles::File>& ExpandedFiles::files() const noexcept {
  return impl_->files;
}

std::vector<HeldBytes> ExpandedFiles::pieces(std::size_t file, std::int64_t offset,
                                             std::int64_t bytes) const {
  if (file >= files().size() || offset < 0 || bytes < 0)
    throw Error(Errc::kUsage, "there is no such file, or no such place in it");
  const SegmentedFile& of = impl_->segments->files()[file];
  const std::int64_t end = offset + std::min(bytes, std::max(of.bytes - offset, std::int64_t{0}));
  std::vector<HeldBytes> pieces;
  if (offset >= end) return pieces;
  const auto& all = of.segments;
  const auto first = std::ranges::upper_bound(all, offset, {}, &FileSegment::begin) - 1;
  for (auto at = first; at != all.end() && at->begin < end; ++at) {
    try {
      if (at == first) impl_->check(of, static_cast<std::size_t>(first - all.begin()));
      HeldBytes held = impl_->held(*at);
      const std::int64_t from = std::max(offset - at->begin, std::int64_t{0});
      const std::int64_t until = std::min(end - at->begin, at->bytes);
      held.bytes = held.bytes.subspan(static_cast<std::size_t>(from),
                                      static_cast<std::size_t>(until - from));
      pieces.push_back(std::move(held));
    } catch (const Error& error) {
      throw Error(error.code(), impl_->place(of, *at) + ": " + error.what());
    }
  }
  const auto last = static_cast<std::size_t>(first - all.begin()) + pieces.size() - 1;
  const std::int64_t ahead =
      impl_->streams[file].ahead(static_cast<std::size_t>(first - all.begin()), last);
  if (ahead > 0) {
    impl_->drop_behind(of, static_cast<std::size_t>(first - all.begin()));
    impl_->decode_ahead(of, last + 1, ahead);
  }
  return pieces;
}

std::size_t ExpandedFiles::read(std::size_t file, std::int64_t offset,
                                std::span<std::byte> to) const {
  std::size_t bytes = 0;
  for (const HeldBytes& piece : pieces(file, offset, static_cast<std::int64_t>(to.size()))) {
    std::memcpy(to.data() + bytes, piece.bytes.data(), piece.bytes.size());
    bytes += piece.bytes.size();
  }
  return bytes;
}

}  // namespace gbcompress
