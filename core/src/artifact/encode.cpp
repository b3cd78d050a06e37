// From what was added to the bytes of a file.
#include <algorithm>
#include <optional>

#include "artifact/header/header.h"
#include "artifact/header/text.h"
#include "artifact/integers/integers.h"
#include "artifact/integers/packed_blocks.h"
#include "artifact/sections/lanes_sections.h"
#include "artifact/sections/levels.h"
#include "artifact/sections/packing.h"
#include "artifact/written_digest.h"
#include "base/byte_reader.h"
#include "base/checked.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/parallel.h"
#include "base/spool.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

void append(std::vector<std::byte>& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// A tensor's integers as integer_grids() has them.
std::vector<std::int32_t> in_order(const ArtifactTensor& tensor, const CodedTheta& theta,
                                   const CodedValues& values) {
  std::vector<std::int32_t> numbers;
  if (has_coded_theta(tensor)) numbers = to_blocks(tensor.spec, theta.integers);
  numbers.insert(numbers.end(), values.row_steps.begin(), values.row_steps.end());
  numbers.insert(numbers.end(), values.level_table.begin(), values.level_table.end());
  numbers.insert(numbers.end(), values.integers.begin(), values.integers.end());
  return numbers;
}

/// Names those that some tensor refers to.
void keep_used_bases(Header& header, const std::vector<std::string>& bases) {
  constexpr std::size_t kUnused = kMostBases;
  std::vector<std::size_t> places(bases.size(), kUnused);
  for (ArtifactTensor& tensor : header.tensors)
    for_bases(tensor, [&](std::size_t base) {
      if (base >= bases.size())
        throw Error(Errc::kUsage, "a tensor refers to a base, and none is set");
      places[base] = 0;
    });
  for (std::size_t i = 0; i < bases.size(); ++i) {
    if (places[i] == kUnused) continue;
    places[i] = header.bases.size();
    header.bases.push_back(bases[i]);
  }
  for (ArtifactTensor& tensor : header.tensors)
    for_bases(tensor, [&](std::size_t& base) { base = places[base]; });
}

/// In lanes the integers of a dependent grid stand for other values than in other profiles.
void check_lanes(const ArtifactTensor& tensor) {
  if (has_values(tensor) && tensor.grid.dependent && !tensor.grid.lanes)
    throw Error(Errc::kUsage, printable(tensor.name) +
                                  " has dependent integers whose states are not in lanes; choose "
                                  "them with IntegerGrid::lanes");
}

}  // namespace

std::vector<std::byte> encode_section(const CodedValues& values, CodecProfile profile) {
  check_values(values, "the values");
  IntegerEncoder encoder(profile);
  if (!values.row_steps.empty()) encoder.add({1, values.grid.rows, 0}, values.row_steps);
  if (values.levels.used()) encoder.add(level_grid(values.levels, values.grid), values.level_table);
  encoder.add(values.grid, values.integers);
  return encoder.finish();
}

CodecProfile ArtifactWriter::profile() const {
  if (profile_) return *profile_;
  std::int64_t integers = 0;
  bool fits = true, in_lanes = false, in_order = false;
  for (const ArtifactTensor& tensor : tensors_) {
    integers += integer_count(tensor);
    fits = fits && fits_small(integer_grids(tensor));
    if (has_values(tensor) && tensor.grid.dependent)
      (tensor.grid.lanes ? in_lanes : in_order) = true;
  }
  if (in_lanes) return CodecProfile::kLanes;
  // Integers whose states run on in order have another meaning in lanes.
  if (fits && integers <= (in_order ? kMaxSmallIntegers : kAutoSmall)) return CodecProfile::kSmall;
  return CodecProfile::kLanes;
}

/// What a file consists of.
struct ArtifactWriter::Layout {
  std::int64_t bytes = 0;              ///< of the whole file
  std::vector<std::byte> beginning;    ///< prelude and header
  std::vector<std::byte> stream;       ///< of all integers, profile small
  std::optional<LanesSections> lanes;  ///< of all integers, profile lanes
};

const ArtifactWriter::Layout& ArtifactWriter::layout() const {
  if (!layout_) layout_ = std::make_shared<const Layout>(make_layout());
  return *layout_;
}

ArtifactWriter::Layout ArtifactWriter::make_layout() const {
  Header header;
  header.arch = arch_;
  header.settings = settings_;
  if (layer_) header.part = layer_ == Layer::kExact ? FilePart::kRest : FilePart::kDraft;
  header.digest = digest_;
  header.originals = {.stored = static_cast<std::int64_t>(originals_.bytes.size()),
                      .raw = originals_.raw};
  header.tensors = tensors_;
  if (header.part != FilePart::kRest) keep_used_bases(header, bases_);
  header.profile = profile();
  const bool small = header.profile == CodecProfile::kSmall;
  const bool lanes = header.profile == CodecProfile::kLanes;
  // What was not encoded before has the file's profile.
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (!contents_[i].encoded) header.tensors[i].profile = header.profile;
  Layout layout;
  IntegerEncoder stream(header.profile);
  std::int64_t output = 0, integers = 0, content = header.originals.stored;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const ArtifactTensor& tensor = header.tensors[i];
    const Content& added = contents_[i];
    output = checked_add(output, tensor_bytes(tensor.shape, tensor.dtype), "the expanded file");
    std::int64_t stored = tensor.stored_bytes;
    if (lanes && in_stripes(tensor)) {
      check_lanes(tensor);
      stored = 0;
      integers += integer_count(tensor);
    } else if (const std::int64_t n = integer_count(tensor); small && n > 0) {
      integers += n;
      if (integers > kMaxSmallIntegers || !fits_small(integer_grids(tensor)))
        throw Error(Errc::kLimit, "the profile small codes at most " +
                                      std::to_string(kMaxSmallIntegers) + " integers, " +
                                      std::to_string(kMaxSmallColumns) +
                                      " in a row; choose the profile lanes");
      std::vector<std::int32_t> joined;
      std::span<const std::int32_t> numbers = added.values.integers;
      if (has_coded_theta(tensor) || tensor.row_steps || tensor.levels.used())
        numbers = joined = in_order(tensor, added.theta, added.values);
      if (!stream_) encode_integers(stream, tensor, numbers);
      stored = 0;
    }
    content += stored;
    header.sections.push_back({.stored = stored, .packing = added.packing});
  }
  if (lanes && integers == 0 && header.any_small_section())
    throw Error(
        Errc::kUsage,
        "all integers have sections of profile small; choose lanes for one tensor at least");
  if (small && integers > 0) layout.stream = stream_ ? *stream_ : stream.finish();
  content += static_cast<std::int64_t>(layout.stream.size());
  if (lanes && integers > 0) {
    layout.lanes.emplace(
        header.tensors, [&](std::size_t i, const auto& visit) { visit_grids(i, visit); },
        spool_ ? spool_->folder() : std::filesystem::path(),
        threads_ > 0 ? threads_ : usable_processors());
    header.head_bytes = layout.lanes->head_bytes();
    header.stripes = layout.lanes->stripes();
    content += layout.lanes->bytes();
  }

  const std::vector<std::byte> raw = encode_header(header);
  if (static_cast<std::int64_t>(raw.size()) > ArtifactLimits{}.header_bytes)
    throw Error(Errc::kLimit, "the header would have " + std::to_string(raw.size()) +
                                  " bytes, at most " +
                                  std::to_string(ArtifactLimits{}.header_bytes) + " are allowed");
  const auto [stored, packing] = pack(raw, 1);
  layout.beginning =
      encode_prelude(static_cast<std::int64_t>(stored.size()),
                     packing == Packing::kRaw ? 0 : static_cast<std::int64_t>(raw.size()), content);
  append(layout.beginning, stored);
  layout.bytes = static_cast<std::int64_t>(layout.beginning.size()) + content + kDigestBytes;
  return layout;
}

void ArtifactWriter::visit_integers(
    std::size_t tensor, const std::function<void(std::span<const std::int32_t>)>& visit) const {
  const ArtifactTensor& form = tensors_[tensor];
  const Content& added = contents_[tensor];
  if (!added.encoded) {
    if (!has_coded_theta(form) && !form.row_steps && !form.levels.used())
      return visit(added.values.integers);
    return visit(in_order(form, added.theta, added.values));
  }
  if (form.stored_bytes == 0) return;  // the place of one that follows
  std::vector<std::byte> section = added.bytes;
  if (added.spooled >= 0)
    spool_->read(added.spooled, form.stored_bytes,
                 [&](std::span<const std::byte> piece) { append(section, piece); });
  std::vector<std::int32_t> integers(static_cast<std::size_t>(integer_count(form)));
  IntegerDecoder decoder(CodecProfile::kLanes, section);
  std::span<std::int32_t> rest = integers;
  for (const IntegerGrid& grid : integer_grids(form)) {
    decoder.read(grid, rest.first(static_cast<std::size_t>(grid.size())));
    rest = rest.subspan(static_cast<std::size_t>(grid.size()));
  }
  decoder.finish();
  visit(integers);
}

template <typename Visit>
void ArtifactWriter::visit_grids(std::size_t tensor, const Visit& visit) const {
  const Content& added = contents_[tensor];
  const std::vector<IntegerGrid> grids = integer_grids(tensors_[tensor]);
  if (added.packed.empty())
    return visit_integers(tensor, [&](std::span<const std::int32_t> integers) {
      for (const IntegerGrid& grid : grids) {
        const auto size = static_cast<std::size_t>(grid.size());
        visit(grid, codec::lanes::WholeGrid(codec::lanes::Shape(grid), integers.first(size)));
        integers = integers.subspan(size);
      }
    });
  const auto load = [&](std::size_t block, PackedBlock& room) -> std::span<const std::byte> {
    const std::int64_t begin = block > 0 ? added.packed[block - 1] : 0;
    const auto size = static_cast<std::size_t>(added.packed[block] - begin);
    if (added.spooled < 0)
      return std::span(added.bytes).subspan(static_cast<std::size_t>(begin), size);
    room.resize(size);
    spool_->read(added.spooled + begin, room);
    return room;
  };
  visit_packed(grids, load, visit);
}

void ArtifactWriter::emit(const Layout& layout,
                          const std::function<void(std::span<const std::byte>)>& sink) const {
  sink(layout.beginning);
  for (std::size_t i = 0; i < contents_.size(); ++i) {
    const Content& added = contents_[i];
    if (added.encoded && in_stripes(tensors_[i])) continue;
    if (added.spooled >= 0)
      spool_->read(added.spooled, tensors_[i].stored_bytes, sink);
    else
      sink(added.bytes);
  }
  sink(layout.stream);
  if (layout.lanes) layout.lanes->emit(sink);
  sink(originals_.bytes);
}

void ArtifactWriter::set_settings(std::string settings) {
  if (!is_utf8(settings)) throw Error(Errc::kUsage, "the settings are not UTF-8");
  settings_ = std::move(settings);
  if (layout_ && !layout_->stream.empty()) stream_ = layout_->stream;
  layout_.reset();
}

PackedOriginals pack_originals(std::span<const std::byte> bytes) {
  return {pack(bytes, 1).first, static_cast<std::int64_t>(bytes.size())};
}

void ArtifactWriter::set_originals(PackedOriginals originals) {
  originals_ = std::move(originals);
  if (layout_ && !layout_->stream.empty()) stream_ = layout_->stream;
  layout_.reset();
}

void ArtifactWriter::reuse_stream(std::vector<std::byte> stream) {
  layout_.reset();
  stream_ = std::move(stream);
}

const std::vector<std::byte>& ArtifactWriter::stream() const { return layout().stream; }

std::int64_t ArtifactWriter::size() const { return layout().bytes; }

std::vector<std::byte> ArtifactWriter::encode() const {
  std::vector<std::byte> file;
  emit(layout(), [&](std::span<const std::byte> piece) { append(file, piece); });
  for (char c : sha256(file).substr(0, kDigestBytes)) append_number(file, c);
  return file;
}

std::int64_t ArtifactWriter::append_to(AtomicFile& file, WrittenDigest& digest) const {
  const Layout& content = layout();
  emit(content, [&](std::span<const std::byte> piece) { digest.write(file, piece); });
  return content.bytes;
}

namespace {

/// Ends a part of a file with the digest of what is in the file.
KnownContent append_digest(AtomicFile& file, WrittenDigest& digest) {
  KnownContent content = digest.content();
  digest.write(file, std::as_bytes(std::span(content.sha256)).first(kDigestBytes));
  return content;
}

}  // namespace

std::int64_t ArtifactWriter::write(const std::filesystem::path& path, bool overwrite,
                                   const std::function<void(const ArtifactReader&)>& look) const {
  AtomicFile file(path, overwrite);
  WrittenDigest digest;
  const std::int64_t written = append_to(file, digest);
  const KnownContent content = append_digest(file, digest);
  if (look) look(ArtifactReader::open_written(file.flush(), content));
  file.commit();
  return written;
}

std::int64_t ArtifactWriter::write_layers(
    const ArtifactWriter& draft,
    const std::function<const ArtifactWriter&(const ArtifactReader& draft)>& exact,
    const std::filesystem::path& path, bool overwrite,
    const std::function<void(const ArtifactReader&)>& look) {
  if (draft.layer_ != Layer::kDraft) throw Error(Errc::kUsage, "the first part is no draft");
  AtomicFile file(path, overwrite);
  WrittenDigest digest;
  std::int64_t written = draft.append_to(file, digest);
  const KnownContent first = append_digest(file, digest);
  const ArtifactWriter& rest = exact(ArtifactReader::open_written(file.flush(), first));
  if (rest.layer_ != Layer::kExact) throw Error(Errc::kUsage, "the second part is no exact part");
  written += rest.append_to(file, digest);
  const KnownContent content = append_digest(file, digest);
  if (look) look(ArtifactReader::open_written(file.flush(), content));
  file.commit();
  return written;
}

}  // namespace gbcompress
