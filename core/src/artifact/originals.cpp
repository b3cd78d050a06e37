#include "artifact/originals.h"

#include <algorithm>
#include <functional>
#include <string_view>
#include <utility>

#include "artifact/sections/varint.h"
#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/digest.h"
#include "base/mapped_inputs.h"
#include "format/file_kind.h"
#include "format/safetensors/safetensors.h"
#include "format/safetensors/safetensors_order.h"
#include "format/torch/strided.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kOriginalsVersion = 1;
constexpr std::size_t kSha256Bytes = 32;
constexpr std::size_t kDigestPiece = std::size_t{16} << 20;
/// What a model's files may have beside it where tensors were left out: a share of the files, and
/// so many bytes.
constexpr std::uint64_t kMostLeft = 16, kFewBytes = 1 << 16;

/// Where a tensor lies in memory.
struct TensorPlace {
  const std::byte *first, *end;
  std::size_t tensor;
};

/// In the order of their places; of empty tensors in one place as the reference writer has them.
std::vector<TensorPlace> places_of(const std::vector<TensorEntry>& tensors) {
  std::vector<TensorPlace> places;
  for (const std::size_t i : file_order(tensors)) {
    const auto bytes = tensors[i].order.empty() ? tensors[i].bytes : tensors[i].stored;
    if (bytes.data()) places.push_back({bytes.data(), bytes.data() + bytes.size(), i});
  }
  std::stable_sort(places.begin(), places.end(), [](const TensorPlace& a, const TensorPlace& b) {
    return a.first != b.first ? std::less<>()(a.first, b.first) : std::less<>()(a.end, b.end);
  });
  return places;
}

void put_bytes(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// A file without the elements of the tensors that lie in it.
/// @param most  of the skeleton; beyond it the file has none
std::optional<ContainerFile> without_tensors(std::span<const std::byte> bytes, std::string name,
                                             std::span<const TensorPlace> places,
                                             std::uint64_t most) {
  ContainerFile file{std::move(name), {}, {}};
  const std::byte *at = bytes.data(), *const end = bytes.data() + bytes.size();
  auto place = std::upper_bound(places.begin(), places.end(), at,
                                [](const std::byte* where, const TensorPlace& each) {
                                  return std::less<>()(where, each.first);
                                });
  for (; place != places.end() && !std::less<>()(end, place->first); ++place) {
    // A part of a tensor that came before stays a part of that one.
    if (std::less<>()(place->first, at) || std::less<>()(end, place->end)) continue;
    const std::span gap(at, place->first);
    if (file.skeleton.size() + gap.size() > most) return {};
    file.holes.push_back({place->tensor, gap.size(), PayloadEncoding::kBytes, {}});
    put_bytes(file.skeleton, gap);
    at = place->end;
  }
  const std::span rest(at, end);
  if (file.skeleton.size() + rest.size() > most) return {};
  put_bytes(file.skeleton, rest);
  return file;
}

template <typename Tensor>
std::vector<TensorEntry> tensors_of(const std::vector<Hole>& holes,
                                    const std::vector<Tensor>& tensors) {
  std::vector<TensorEntry> entries;
  for (const Hole& hole : holes) {
    const Tensor& tensor = tensors[hole.tensor];
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  return entries;
}

std::string_view chars_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

/// Leaves the start of a safetensors header in the skeleton where the rest follows from the
/// tensors.
void shorten_header(OriginalFile& file, const std::vector<TensorEntry>& tensors) {
  constexpr std::size_t kLength = sizeof(std::uint64_t);
  auto& [name, holes, skeleton] = file.content;
  if (holes.empty() || holes.front().before != skeleton.size() || skeleton.size() < kLength) return;
  const std::vector<TensorEntry> entries = tensors_of(holes, tensors);
  const std::vector<std::byte> alone = safetensors_start("{", entries, name);
  const auto text_in = [](std::span<const std::byte> bytes) {
    const std::string_view text = chars_of(bytes.subspan(kLength));
    return text.substr(0, text.find_last_not_of(' ') + 1);
  };
  const std::string_view made = text_in(alone).substr(1), given = text_in(skeleton);
  if (!given.ends_with(made)) return;
  std::string start(given.substr(0, given.size() - made.size()));
  if (start.ends_with(',')) start.pop_back();
  if (safetensors_start(start, entries, name) != skeleton) return;
  const auto bytes = std::as_bytes(std::span(start));
  skeleton.assign(bytes.begin(), bytes.end());
  holes.front().before = 0;
  file.headed = true;
}

/// "safetensors", "torch", or "" for what holds no tensors.
std::string format_of(std::span<const std::byte> bytes, const std::string& label) {
  switch (sniff_bytes(bytes, label)) {
    case FileKind::kSafetensors:
      return "safetensors";
    case FileKind::kStateDict:
    case FileKind::kExported:
      return "torch";
    default:
      return "";
  }
}

/// Names of one folder. The first file may have any; without a suffix it is no file's name, but a
/// stream's, and becomes "model".
std::optional<std::string> name_of(const TensorBundle& bundle, std::size_t i) {
  const std::filesystem::path name =
      bundle.files[i].lexically_relative(bundle.files.front().parent_path());
  if (is_file_name(name.generic_string()) && (i > 0 || name.has_extension()))
    return name.generic_string();
  if (i > 0) return {};
  return "model";
}

/// Where elements lie along other dimensions first.
void find_orders(OriginalFile& file, const std::vector<TensorEntry>& tensors) {
  const auto& holes = file.content.holes;
  for (std::size_t i = 0; i < holes.size(); ++i)
    if (const auto& order = tensors[holes[i].tensor].order; !order.empty())
      file.orders.emplace(i, order);
}

void read_orders(ByteReader& in, OriginalFile& file, const std::string& label) {
  const auto refuse = [&] {
    throw Error(Errc::kCorrupt, label + " has an original file with malformed dimensions");
  };
  std::int64_t hole = -1;
  for (std::int64_t n = read_varint(in, label); n > 0; --n) {
    hole = checked_add(hole + 1, read_varint(in, label), "a hole");
    const std::int64_t rank = read_varint(in, label);
    if (rank > static_cast<std::int64_t>(kMaxTensorRank)) refuse();
    unsigned seen = 0;
    std::vector<std::uint8_t>& order = file.orders[static_cast<std::size_t>(hole)];
    for (std::int64_t i = 0; i < rank; ++i) {
      const auto dimension = in.read<std::uint8_t>();
      if (dimension >= rank || (seen >> dimension & 1)) refuse();
      seen |= 1U << dimension;
      order.push_back(dimension);
    }
  }
}

/// The first name is kept apart: a container has the model's own file without one.
std::string read_name(ByteReader& in, const std::string& label) {
  const std::int64_t size = read_varint(in, label);
  if (size > static_cast<std::int64_t>(kMaxContainerName))
    throw Error(Errc::kCorrupt, label + " has an original file whose name is too long");
  const std::string name(chars_of(in.take(static_cast<std::size_t>(size))));
  if (!is_file_name(name))
    throw Error(Errc::kCorrupt, label + " has an original file of the name " + printable(name) +
                                    ", which is not allowed");
  return name;
}

void check_headed(const OriginalFile& file, const std::string& label) {
  const auto filled = [](const Hole& hole) { return hole.before != 0; };
  if (file.headed && (file.content.skeleton.empty() ||
                      std::any_of(file.content.holes.begin(), file.content.holes.end(), filled)))
    throw Error(Errc::kCorrupt, label + " has an original file whose header has no start");
}

}  // namespace

std::vector<std::byte> OriginalFiles::encode() const {
  std::vector<std::byte> to;
  append_varint(to, kOriginalsVersion);
  Container container{format, {}};
  append_varint(to, static_cast<std::int64_t>(files.front().content.name.size()));
  put_bytes(to, std::as_bytes(std::span(files.front().content.name)));
  append_varint(to, static_cast<std::int64_t>(files.size()));
  for (const OriginalFile& file : files) {
    append_varint(to, file.headed ? 1 : 0);
    append_varint(to, file.bytes);
    put_bytes(to, std::as_bytes(std::span(file.sha256)));
    append_varint(to, static_cast<std::int64_t>(file.orders.size()));
    std::size_t next = 0;
    for (const auto& [hole, order] : file.orders) {
      append_varint(to, static_cast<std::int64_t>(hole - next));
      next = hole + 1;
      append_varint(to, static_cast<std::int64_t>(order.size()));
      put_bytes(to, std::as_bytes(std::span(order)));
    }
    container.files.push_back(file.content);
  }
  container.files.front().name.clear();
  put_bytes(to, container.encode());
  return to;
}

OriginalFiles OriginalFiles::decode(std::span<const std::byte> bytes, std::size_t tensors,
                                    const std::string& label) {
  ByteReader in(bytes, label + ": its original files");
  if (const std::int64_t version = read_varint(in, label); version != kOriginalsVersion)
    throw Error(Errc::kUnsupported, label + " keeps its original files in version " +
                                        std::to_string(version) + "; this build knows " +
                                        std::to_string(kOriginalsVersion) + ", upgrade gbcompress");
  const std::string name = read_name(in, label);
  const std::int64_t count = read_varint(in, label);
  if (count < 1 || count > static_cast<std::int64_t>(kMaxContainerFiles))
    throw Error(Errc::kCorrupt, label + " declares " + std::to_string(count) + " original files");
  OriginalFiles originals;
  for (std::int64_t i = 0; i < count; ++i) {
    OriginalFile& file = originals.files.emplace_back();
    const std::int64_t headed = read_varint(in, label);
    if (headed > 1) throw Error(Errc::kCorrupt, label + " has an original file of no known form");
    file.headed = headed == 1;
    file.bytes = read_varint(in, label);
    file.sha256 = chars_of(in.take(kSha256Bytes));
    read_orders(in, file, label);
  }
  Container container = Container::decode(in.take(in.remaining()), tensors, label);
  if (container.files.size() != originals.files.size())
    throw Error(Errc::kCorrupt, label + " has other original files than it declares");
  originals.format = std::move(container.format);
  for (std::size_t i = 0; i < container.files.size(); ++i) {
    if (container.files[i].name == name)
      throw Error(Errc::kCorrupt, label + " has two original files of one name");
    originals.files[i].content = std::move(container.files[i]);
    check_headed(originals.files[i], label);
    const auto& orders = originals.files[i].orders;
    if (!orders.empty() && orders.rbegin()->first >= originals.files[i].content.holes.size())
      throw Error(Errc::kCorrupt, label + " has an original file with dimensions of no tensor");
  }
  originals.files.front().content.name = name;
  return originals;
}

std::optional<OriginalFiles> find_originals(const TensorBundle& bundle, std::string& note) {
  if (bundle.contents.empty() || bundle.contents.size() != bundle.files.size()) return {};
  const auto refuse = [&](const std::string& why) {
    note = "the files themselves do not come back, only their tensors: " + why;
    return std::nullopt;
  };
  if (bundle.contents.size() > kMaxContainerFiles)
    return refuse("they are more than " + std::to_string(kMaxContainerFiles));
  const std::vector<TensorPlace> places = places_of(bundle.tensors);
  std::uint64_t all = 0;
  for (const auto& bytes : bundle.contents) all += bytes.size();
  std::uint64_t left =
      bundle.left_out.empty() ? kMaxSkeleton : std::min(kMaxSkeleton, all / kMostLeft + kFewBytes);
  OriginalFiles originals;
  for (std::size_t i = 0; i < bundle.contents.size(); ++i) {
    const auto bytes = bundle.contents[i];
    const auto name = name_of(bundle, i);
    if (!name) return refuse(printable(bundle.files[i].string()) + " cannot be a file's name");
    auto content = without_tensors(bytes, *name, places, left);
    if (!content)
      return refuse(bundle.left_out.empty() ? "they have more than 4 GiB beside the tensors"
                                            : "tensors are left out; `keep_all` keeps everything");
    left -= content->skeleton.size();
    originals.files.push_back(
        {.bytes = static_cast<std::int64_t>(bytes.size()), .content = std::move(*content)});
    OriginalFile& file = originals.files.back();
    if (file.content.holes.empty() && bundle.contents.size() > 1) continue;
    find_orders(file, bundle.tensors);
    const std::string format = format_of(bytes, *name);
    if (originals.format.empty()) originals.format = format;
    if (format == "safetensors") shorten_header(file, bundle.tensors);
  }
  if (originals.format.empty()) return {};
  std::string& first = originals.files.front().content.name;
  if (first == "model") first += originals.format == "torch" ? ".pt" : ".safetensors";
  return originals;
}

void digest_originals(OriginalFiles& originals, const TensorBundle& bundle) {
  for (std::size_t i = 0; i < originals.files.size(); ++i) {
    Sha256 digest;
    for (auto rest = bundle.contents[i]; !rest.empty();) {
      if (interrupt_requested() != 0) return;
      const auto piece = rest.first(std::min(rest.size(), kDigestPiece));
      digest.update(piece);
      release_pages(piece);
      rest = rest.subspan(piece.size());
    }
    originals.files[i].sha256 = digest.finish();
  }
}

ContainerFile whole_file(const OriginalFile& file, const std::vector<ArtifactTensor>& tensors,
                         const std::string& label) {
  ContainerFile whole = file.content;
  if (!file.headed) return whole;
  whole.skeleton = safetensors_start(std::string(chars_of(whole.skeleton)),
                                     tensors_of(whole.holes, tensors), label);
  if (!whole.holes.empty()) whole.holes.front().before = whole.skeleton.size();
  return whole;
}

std::vector<std::byte> ordered_elements(std::span<const std::byte> bytes,
                                        const ArtifactTensor& tensor,
                                        std::span<const std::uint8_t> order,
                                        const std::string& label) {
  if (order.size() != tensor.shape.size() || dtype_bits(tensor.dtype) % 8 != 0)
    throw Error(Errc::kCorrupt, label + " has an original file with other dimensions than " +
                                    printable(tensor.name));
  return in_order_of(bytes, tensor.shape, order, dtype_bits(tensor.dtype) / 8);
}

void check_originals(const ArtifactReader& artifact, const TensorBundle& bundle) {
  const std::vector<std::byte> stored = artifact.originals();
  if (stored.empty() || bundle.contents.empty()) return;
  const OriginalFiles originals =
      OriginalFiles::decode(stored, artifact.tensors().size(), "the file");
  for (std::size_t i = 0; i < originals.files.size(); ++i) {
    const ContainerFile file = whole_file(originals.files[i], artifact.tensors(), "the file");
    const auto given = bundle.contents.at(i);
    std::span<const std::byte> skeleton = file.skeleton, rest = given;
    bool same = originals.files[i].bytes == static_cast<std::int64_t>(given.size());
    const auto pass = [&](std::size_t size) {
      same = same && size <= rest.size() && size <= skeleton.size() &&
             std::ranges::equal(skeleton.first(size), rest.first(size));
      if (!same) return;
      skeleton = skeleton.subspan(size);
      rest = rest.subspan(size);
    };
    for (std::size_t k = 0; k < file.holes.size(); ++k) {
      pass(file.holes[k].before);
      const TensorEntry& entry = bundle.tensors[file.holes[k].tensor];
      const auto order = originals.files[i].orders.find(k);
      const bool ordered = order != originals.files[i].orders.end();
      const auto bytes = ordered ? entry.stored : entry.bytes;
      same = same && bytes.data() == rest.data() && bytes.size() <= rest.size() &&
             (!ordered ||
              std::ranges::equal(
                  bytes, ordered_elements(entry.bytes, artifact.tensors()[file.holes[k].tensor],
                                          order->second, "the file")));
      if (same) rest = rest.subspan(bytes.size());
    }
    pass(skeleton.size());
    if (!same || !rest.empty())
      throw Error(Errc::kFailure, printable(file.name) +
                                      " would not come back byte for byte, and nothing was "
                                      "written; compress it again while nothing changes it, or "
                                      "report it");
  }
}

}  // namespace gbcompress
