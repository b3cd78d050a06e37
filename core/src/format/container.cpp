#include "format/container.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <protozero/varint.hpp>
#include <unordered_set>

#include "base/checked.h"
#include "base/utf8.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Files without encodings of real numbers as integers have the first.
constexpr std::uint64_t kFirstVersion = 1, kContainerVersion = 2;
constexpr std::uint64_t kMostInner = std::uint64_t{1} << 40;

class ContainerReader {
 public:
  ContainerReader(std::span<const std::byte> bytes, const std::string& label)
      : at_(reinterpret_cast<const char*>(bytes.data())), end_(at_ + bytes.size()), label_(label) {}

  std::uint64_t number() {
    try {
      return protozero::decode_varint(&at_, end_);
    } catch (const protozero::exception& ended) {
      throw Error(Errc::kTruncated, label_ + ": a number of its container ends early");
    }
  }
  /// @param most  above it the file is refused
  std::uint64_t number(std::uint64_t most, const char* what) {
    const std::uint64_t value = number();
    if (value > most)
      corrupt(std::string(what) + " is " + std::to_string(value) + ", at most " +
              std::to_string(most) + " is possible");
    return value;
  }
  std::span<const std::byte> take(std::uint64_t size) {
    if (size > left()) throw Error(Errc::kTruncated, label_ + ": its container ends early");
    const auto* first = reinterpret_cast<const std::byte*>(at_);
    at_ += size;
    return {first, size};
  }
  std::string text(std::size_t most) {
    const auto bytes = take(number(most, "the length of a name"));
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  std::uint64_t left() const { return static_cast<std::uint64_t>(end_ - at_); }
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + ": in its container, " + what);
  }

 private:
  const char *at_, *end_;
  const std::string& label_;
};

void append_varint(std::vector<std::byte>& to, std::uint64_t value) {
  std::array<char, protozero::max_varint_length> bytes{};
  const int size = protozero::write_varint(bytes.data(), value);
  const auto* first = reinterpret_cast<const std::byte*>(bytes.data());
  to.insert(to.end(), first, first + size);
}

bool is_text(std::string_view name) {
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(name, i);
    if (length == 0 || is_control(name, i)) return false;
    i += length;
  }
  return true;
}

Affine read_affine(ContainerReader& in) {
  Affine affine;
  affine.dtype = in.number(1, "a type of integers") == 0 ? DType::kI8 : DType::kU8;
  affine.inner = in.number(kMostInner, "the elements of a scale");
  const std::uint64_t count = in.number(in.left() / (sizeof(float) + 1), "the number of scales");
  if (affine.inner == 0 || count == 0) in.corrupt("a hole of integers has no scale");
  const auto scales = in.take(count * sizeof(float));
  affine.scales.resize(count);
  std::memcpy(affine.scales.data(), scales.data(), scales.size());
  for (const float scale : affine.scales)
    if (!(scale > 0) || scale > std::numeric_limits<float>::max())
      in.corrupt("a scale is not a number above 0");
  for (const std::byte zero : in.take(count))
    affine.zeros.push_back(affine.dtype == DType::kI8 ? std::to_integer<std::int8_t>(zero)
                                                      : std::to_integer<std::uint8_t>(zero));
  return affine;
}

Hole read_hole(ContainerReader& in, std::uint64_t version, std::vector<bool>& filled,
               std::uint64_t& at) {
  Hole hole;
  if (filled.empty()) in.corrupt("a hole has no tensor");
  hole.tensor = in.number(filled.size() - 1, "the index of a tensor");
  if (filled[hole.tensor]) in.corrupt("tensor " + std::to_string(hole.tensor) + " has two places");
  filled[hole.tensor] = true;
  hole.before = in.number(kMaxSkeleton, "a gap");
  at = at + hole.before;
  hole.encoding =
      static_cast<PayloadEncoding>(in.number(version == kFirstVersion ? 1 : 3, "an encoding"));
  if (hole.encoding == PayloadEncoding::kAffine) hole.affine = read_affine(in);
  if (hole.encoding != PayloadEncoding::kVarint) return hole;
  std::uint64_t last = 0;
  const std::uint64_t frames = in.number(in.left(), "the number of lengths");
  for (std::uint64_t i = 0; i < frames; ++i) {
    last += in.number(kMaxSkeleton, "the place of a length");
    if (last >= at || (i > 0 && last == hole.frames.back()))
      in.corrupt("a length stands behind what it counts");
    hole.frames.push_back(last);
  }
  return hole;
}

/// The size of one element of those types, and whether its sign is extended.
std::pair<std::size_t, bool> varint_form(DType dtype) {
  if (dtype_bits(dtype) % 8 != 0)
    throw Error(Errc::kCorrupt, "in a container, a hole of varints has a tensor of " +
                                    std::string(dtype_name(dtype)) +
                                    ", whose elements are no whole bytes");
  const bool sign =
      dtype == DType::kI8 || dtype == DType::kI16 || dtype == DType::kI32 || dtype == DType::kI64;
  return {static_cast<std::size_t>(dtype_bits(dtype)) / 8, sign};
}

/// A length in a skeleton: what it says, and how it changes.
struct Length {
  std::uint64_t place = 0, value = 0;
  std::size_t width = 0;
  std::int64_t more = 0;
  std::optional<std::uint64_t> outer;  ///< place of the length that counts this one's bytes as well
};

/// The one at that place, which there is.
Length& length_at(std::vector<Length>& lengths, std::uint64_t place) {
  return *std::lower_bound(lengths.begin(), lengths.end(), place,
                           [](const Length& each, std::uint64_t at) { return each.place < at; });
}

/// Of the holes whose elements take another number of bytes now, in the order of their places.
std::vector<Length> lengths_around(const ContainerFile& file, std::span<const std::int64_t> more) {
  std::vector<Length> lengths;
  for (std::size_t i = 0; i < file.holes.size(); ++i)
    for (const std::uint64_t place : file.holes[i].frames)
      if (more[i] != 0) lengths.push_back({.place = place});
  std::sort(lengths.begin(), lengths.end(),
            [](const Length& a, const Length& b) { return a.place < b.place; });
  const auto end = std::unique(lengths.begin(), lengths.end(),
                               [](const Length& a, const Length& b) { return a.place == b.place; });
  lengths.erase(end, lengths.end());
  return lengths;
}

std::vector<Length> changed_lengths(const ContainerFile& file, std::span<const std::int64_t> more,
                                    const std::string& label) {
  std::vector<Length> lengths = lengths_around(file, more);
  for (std::size_t i = 0; i < file.holes.size(); ++i) {
    if (more[i] == 0) continue;
    std::optional<std::uint64_t> outer;
    for (const std::uint64_t place : file.holes[i].frames) {
      length_at(lengths, place).outer = outer;
      outer = place;
    }
    if (outer) length_at(lengths, *outer).more += more[i];
  }
  for (Length& length : lengths) {
    ContainerReader in(std::span(file.skeleton).subspan(length.place), label);
    const std::uint64_t left = in.left();
    length.value = in.number(kMaxSkeleton * 2, "a length");
    length.width = left - in.left();
  }
  // Inner ones stand behind outer ones.
  for (auto at = lengths.rbegin(); at != lengths.rend(); ++at) {
    Length& length = *at;
    if (length.more == 0) continue;
    const std::int64_t now = static_cast<std::int64_t>(length.value) + length.more;
    if (now < 0) throw Error(Errc::kCorrupt, label + ": a length of its container is too small");
    length.value = static_cast<std::uint64_t>(now);
    const auto width = static_cast<std::int64_t>(protozero::length_of_varint(length.value));
    if (length.outer)
      length_at(lengths, *length.outer).more +=
          length.more + width - static_cast<std::int64_t>(length.width);
  }
  return lengths;
}

void append_hole(std::vector<std::byte>& to, const Hole& hole) {
  append_varint(to, hole.tensor);
  append_varint(to, hole.before);
  append_varint(to, static_cast<std::uint64_t>(hole.encoding));
  if (hole.encoding == PayloadEncoding::kVarint) {
    append_varint(to, hole.frames.size());
    std::uint64_t last = 0;
    for (const std::uint64_t place : hole.frames) {
      append_varint(to, place - last);
      last = place;
    }
  }
  if (hole.encoding != PayloadEncoding::kAffine) return;
  append_varint(to, hole.affine.dtype == DType::kI8 ? 0 : 1);
  append_varint(to, hole.affine.inner);
  append_varint(to, hole.affine.scales.size());
  const auto scales = std::as_bytes(std::span(hole.affine.scales));
  to.insert(to.end(), scales.begin(), scales.end());
  for (const std::int32_t zero : hole.affine.zeros) to.push_back(static_cast<std::byte>(zero));
}

/// The first that has the encodings of these holes.
std::uint64_t version_for(const std::vector<ContainerFile>& files) {
  for (const ContainerFile& file : files)
    for (const Hole& hole : file.holes)
      if (hole.encoding > PayloadEncoding::kVarint) return kContainerVersion;
  return kFirstVersion;
}

}  // namespace

std::vector<std::byte> Container::encode() const {
  std::vector<std::byte> to;
  const auto append_text = [&](std::string_view text) {
    append_varint(to, text.size());
    const auto bytes = std::as_bytes(std::span(text));
    to.insert(to.end(), bytes.begin(), bytes.end());
  };
  append_varint(to, version_for(files));
  append_text(format);
  append_varint(to, files.size());
  for (const ContainerFile& file : files) {
    append_text(file.name);
    append_varint(to, file.skeleton.size());
    append_varint(to, file.holes.size());
    for (const Hole& hole : file.holes) append_hole(to, hole);
  }
  for (const ContainerFile& file : files)
    to.insert(to.end(), file.skeleton.begin(), file.skeleton.end());
  return to;
}

Container Container::decode(std::span<const std::byte> bytes, std::size_t tensors,
                            const std::string& label) {
  ContainerReader in(bytes, label);
  const std::uint64_t version = in.number();
  if (version < kFirstVersion || version > kContainerVersion)
    throw Error(Errc::kUnsupported, label + " has a container of version " +
                                        std::to_string(version) + "; this build knows " +
                                        std::to_string(kContainerVersion) + ", upgrade gbcompress");
  Container container;
  container.format = in.text(64);
  const std::uint64_t count = in.number(kMaxContainerFiles, "the number of files");
  std::vector<bool> filled(tensors);
  std::unordered_set<std::string> names;
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t i = 0; i < count; ++i) {
    ContainerFile& file = container.files.emplace_back();
    file.name = in.text(kMaxContainerName);
    if (i == 0 ? !file.name.empty() : !is_file_name(file.name))
      in.corrupt("the file name " + printable(file.name) + " is not allowed");
    if (!names.insert(file.name).second) in.corrupt("a file is there twice");
    sizes.push_back(in.number(kMaxSkeleton, "the size of a skeleton"));
    const std::uint64_t holes = in.number(tensors, "the number of holes");
    std::uint64_t at = 0;
    for (std::uint64_t k = 0; k < holes; ++k) {
      file.holes.push_back(read_hole(in, version, filled, at));
      if (at > sizes.back()) in.corrupt("a hole lies behind the end of its file");
    }
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto skeleton = in.take(sizes[i]);
    container.files[i].skeleton.assign(skeleton.begin(), skeleton.end());
  }
  if (count == 0 || in.left() > 0) in.corrupt("the files do not fill it");
  return container;
}

bool stays_inside(std::string_view path) noexcept {
  if (path.empty() || path.front() == '/' || path.find('\\') != std::string_view::npos ||
      path.find('\0') != std::string_view::npos)
    return false;
  for (std::size_t first = 0; first <= path.size();) {
    const std::size_t end = std::min(path.find('/', first), path.size());
    const std::string_view part = path.substr(first, end - first);
    if (part.empty() || part == "." || part == "..") return false;
    first = end + 1;
  }
  return true;
}

bool is_file_name(std::string_view name) noexcept {
  return name.size() <= kMaxContainerName && stays_inside(name) && is_text(name);
}

std::vector<std::byte> to_varints(std::span<const std::byte> elements, DType dtype) {
  const auto [size, sign] = varint_form(dtype);
  std::vector<std::byte> varints;
  varints.reserve(elements.size());
  for (std::size_t i = 0; i + size <= elements.size(); i += size) {
    std::uint64_t value = 0;
    std::memcpy(&value, elements.data() + i, size);
    if (sign && size < 8 && (value >> (8 * size - 1) & 1)) value |= ~std::uint64_t{0} << (8 * size);
    append_varint(varints, value);
  }
  return varints;
}

std::optional<std::vector<std::byte>> from_varints(std::span<const std::byte> varints, DType dtype,
                                                   std::int64_t count) {
  const std::size_t size = varint_form(dtype).first;
  if (static_cast<std::uint64_t>(count) > varints.size()) return {};
  std::vector<std::byte> elements;
  elements.reserve(static_cast<std::size_t>(count) * size);
  const char* at = reinterpret_cast<const char*>(varints.data());
  const char* const end = at + varints.size();
  try {
    for (std::int64_t i = 0; i < count; ++i) {
      const std::uint64_t value = protozero::decode_varint(&at, end);
      const auto* first = reinterpret_cast<const std::byte*>(&value);
      elements.insert(elements.end(), first, first + size);
    }
  } catch (const protozero::exception& ended) {
    return {};
  }
  if (at != end || !std::ranges::equal(to_varints(elements, dtype), varints)) return {};
  return elements;
}

std::uint64_t payload_size(const ContainerFile& file, const Hole& hole, const std::string& label) {
  ContainerReader in(std::span(file.skeleton)
                         .subspan(hole.frames.empty() ? file.skeleton.size() : hole.frames.back()),
                     label);
  return in.number(kMaxSkeleton * 2, "a length");
}

void fit_lengths(ContainerFile& file, std::span<const std::int64_t> more,
                 const std::string& label) {
  const auto lengths = changed_lengths(file, more, label);
  std::vector<std::byte> skeleton;
  std::uint64_t from = 0, hole_at = 0;
  std::int64_t moved = 0;  // by how much what follows lies further behind
  std::size_t hole = 0;
  const auto pass_holes = [&](std::uint64_t until) {
    for (; hole < file.holes.size() && hole_at + file.holes[hole].before <= until; ++hole) {
      hole_at += file.holes[hole].before;
      const std::int64_t gap = static_cast<std::int64_t>(file.holes[hole].before) + moved;
      if (gap < 0)
        throw Error(Errc::kCorrupt, label + ": a length of its container lies in a hole");
      file.holes[hole].before = static_cast<std::uint64_t>(gap);
      moved = 0;
    }
  };
  for (const Length& length : lengths) {
    const std::uint64_t place = length.place;
    pass_holes(place);
    if (length.more == 0 || place < from) continue;
    skeleton.insert(skeleton.end(), file.skeleton.begin() + static_cast<std::ptrdiff_t>(from),
                    file.skeleton.begin() + static_cast<std::ptrdiff_t>(place));
    const std::size_t before = skeleton.size();
    append_varint(skeleton, length.value);
    moved += static_cast<std::int64_t>(skeleton.size() - before) -
             static_cast<std::int64_t>(length.width);
    from = place + length.width;
  }
  pass_holes(file.skeleton.size());
  skeleton.insert(skeleton.end(), file.skeleton.begin() + static_cast<std::ptrdiff_t>(from),
                  file.skeleton.end());
  file.skeleton = std::move(skeleton);
}

}  // namespace gbcompress
