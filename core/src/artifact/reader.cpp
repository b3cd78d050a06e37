#include <algorithm>
#include <utility>

#include "artifact/draft_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "artifact/read_many.h"
#include "artifact/sections/blocks.h"
#include "artifact/sections/coding.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "artifact/sections/levels.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/planes.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/mapped_inputs.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Of the expanded size over the file's: what is beyond is no usual file, and damage may make such
/// sizes, for which nothing is to be allocated.
constexpr std::int64_t kUsualExpansion = 64;

bool is_coded(const ArtifactTensor& tensor) noexcept {
  return has_values(tensor) || has_coded_theta(tensor);
}

[[noreturn]] void refuse_length(const ArtifactTensor& tensor, std::int64_t stored,
                                const std::string& label) {
  throw Error(Errc::kCorrupt, label + ": " + printable(tensor.name) +
                                  " declares more integers than " + std::to_string(stored) +
                                  " bytes hold");
}

[[noreturn]] void refuse_more(const std::string& label) {
  throw Error(Errc::kCorrupt, label + " is damaged: it has bytes behind its end; copy it again");
}

/// Of a tensor whose integers are a section of that size.
void check_section(const ArtifactTensor& tensor, std::int64_t stored, const std::string& label) {
  if (!can_hold(tensor.profile, stored, integer_count(tensor)))
    refuse_length(tensor, stored, label);
}

/// Refuses lengths that lie before anything is allocated for them.
void check_integers(const Header& header, std::span<const std::int64_t> stored,
                    const std::string& label) {
  if (header.profile == CodecProfile::kLanes) {
    std::int64_t integers = 0, bytes = header.head_bytes;
    for (std::size_t i = 0; i < stored.size(); ++i) {
      const ArtifactTensor& tensor = header.tensors[i];
      if (in_stripes(tensor))
        integers = checked_add(integers, integer_count(tensor), "the coded integers");
      else if (optional_parts::kSmall && is_coded(tensor))
        check_section(tensor, stored[i], label);
    }
    for (const std::int64_t size : header.stripes) bytes = checked_add(bytes, size, "the stripes");
    if (!can_hold(header.profile, bytes, integers))
      throw Error(Errc::kCorrupt,
                  label + " declares more integers than " + std::to_string(bytes) + " bytes hold");
    return;
  }
  if (!optional_parts::kSmall) return;
  std::int64_t integers = 0;
  for (std::size_t i = 0; i < stored.size(); ++i) {
    const ArtifactTensor& tensor = header.tensors[i];
    if (!is_coded(tensor)) continue;
    integers = checked_add(integers, integer_count(tensor), "the coded integers");
    if (!can_hold(header.profile, stored[i], integers)) refuse_length(tensor, stored[i], label);
  }
}

/// What the parts of a file begin with.
struct Preludes {
  Prelude first;
  bool layered = false;  ///< another part follows the first one
};

/// @throws Error(kCorrupt) for bytes behind the last part; as read_prelude()
Preludes read_preludes(std::span<const std::byte> file, const ArtifactLimits& limits,
                       const std::string& label, Layer layer) {
  Preludes preludes{read_prelude(file, limits, label)};
  const auto rest = file.subspan(static_cast<std::size_t>(preludes.first.end));
  if (rest.empty() || layer == Layer::kDraft) return preludes;
  optional_parts::need(optional_parts::kDeltas, "an exact part");
  preludes.layered = true;
  const auto n = static_cast<std::ptrdiff_t>(std::min(rest.size(), kMagic.size()));
  if (!std::equal(kMagic.begin(), kMagic.begin() + n, reinterpret_cast<const char*>(rest.data())) ||
      read_prelude(rest, limits, label + ": its exact part").end !=
          static_cast<std::int64_t>(rest.size()))
    refuse_more(label);
  return preludes;
}

#ifndef GBC_FREESTANDING
/// Where a file does not begin as its format wants, damage is the reason where there is some. A
/// file that was cut has no digest to compare.
/// @throws Error(kCorrupt)
void blame_damage(std::span<const std::byte> file, const ArtifactLimits& limits,
                  const std::string& label, Errc code) {
  const bool family =
      file.size() > kMagic.size() &&
      std::equal(kMagic.begin(), kMagic.end() - 1, reinterpret_cast<const char*>(file.data()));
  if (family && code != Errc::kTruncated && file.size() > kDigestBytes &&
      static_cast<std::int64_t>(file.size()) <= limits.file_bytes)
    FileDigest(file, label).check();
}

/// Of a file whose exact part was cut, says what is whole. @throws error, or with that advice
[[noreturn]] void blame_cut(std::span<const std::byte> file, const ArtifactLimits& limits,
                            const std::string& label, const Error& error) {
  std::size_t draft = 0;
  try {
    draft = static_cast<std::size_t>(read_prelude(file, limits, label).end);
  } catch (const Error&) {
  }
  if (draft > 0 && has_own_digest(file.first(draft)))
    throw Error(error.code(), error.what() + std::string(kDraftAdvice));
  throw Error(error.code(), error.what());
}
#endif

/// Where the section of the original files begins: with them the file ends, but for its digest.
std::int64_t sections_end(const Header& header, std::span<const std::byte> file,
                          std::int64_t offset, const std::string& label) {
  const std::int64_t end = static_cast<std::int64_t>(file.size()) - kDigestBytes;
  if (header.originals.stored > end - offset)
    throw Error(Errc::kCorrupt, label + " declares sections beyond its end");
  return end - header.originals.stored;
}

/// Head and stripes, which fill [offset, end) of the file.
LanesBytes lanes_bytes(const Header& header, std::span<const std::byte> file, std::int64_t offset,
                       std::int64_t end, const std::string& label) {
  const auto take = [&](std::int64_t size) {
    if (size > end - offset)
      throw Error(Errc::kCorrupt, label + " declares stripes beyond its end");
    offset += size;
    return file.subspan(static_cast<std::size_t>(offset - size), static_cast<std::size_t>(size));
  };
  LanesBytes bytes{.head = take(header.head_bytes), .end = file.data() + file.size()};
  for (const std::int64_t size : header.stripes) bytes.stripes.push_back(take(size));
  if (offset != end)
    throw Error(Errc::kCorrupt, label + " has bytes between its stripes and its digest");
  return bytes;
}

}  // namespace

std::string_view kind_name(TensorKind kind) noexcept {
  switch (kind) {
    case TensorKind::kGenerated:
      return "generated";
    case TensorKind::kExact:
      return "exact";
    case TensorKind::kTied:
      return "tied";
    case TensorKind::kQuantized:
      return "quantized";
    case TensorKind::kPredicted:
      return "predicted";
    case TensorKind::kBase:
      return "base";
    case TensorKind::kChange:
      return "change";
    case TensorKind::kPieces:
      return "pieces";
    case TensorKind::kBlocks:
      return "blocks";
    case TensorKind::kConstant:
      return "constant";
  }
  return "";
}

ArtifactReader ArtifactReader::open(const std::filesystem::path& path, const ArtifactLimits& limits,
                                    DigestCheck check, Layer layer) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  ArtifactReader reader =
      parse(std::move(file), bytes, printable(path.string()), limits, check, layer);
  reader.path_ = path;
  return reader;
}

#ifndef GBC_FREESTANDING
ArtifactReader ArtifactReader::open_written(const std::filesystem::path& path,
                                            const KnownContent& known) {
  auto file = std::make_shared<const MappedFile>(path);
  const std::span<const std::byte> bytes = file->bytes();
  ArtifactReader reader = parse(std::move(file), bytes, printable(path.string()), {},
                                DigestCheck::kWhileDecoding, Layer::kExact, &known);
  reader.path_ = path;
  return reader;
}
#endif

ArtifactReader ArtifactReader::from_bytes(std::vector<std::byte> bytes, std::string label,
                                          const ArtifactLimits& limits, DigestCheck check,
                                          Layer layer) {
  auto file = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  const std::span<const std::byte> held = *file;
  return parse(std::move(file), held, label, limits, check, layer);
}

ArtifactReader ArtifactReader::view(std::span<const std::byte> bytes, const std::string& label,
                                    const ArtifactLimits& limits, DigestCheck check, Layer layer) {
  return parse(nullptr, bytes, label, limits, check, layer);
}

ArtifactReader ArtifactReader::parse(std::shared_ptr<const void> owner,
                                     std::span<const std::byte> file, const std::string& label,
                                     const ArtifactLimits& limits, DigestCheck check, Layer layer,
                                     [[maybe_unused]] const KnownContent* known) {
  Preludes preludes;
#ifdef GBC_FREESTANDING
  preludes = read_preludes(file, limits, label, layer);
#else
  try {
    preludes = read_preludes(file, limits, label, layer);
  } catch (const Error& error) {
    blame_damage(file, limits, label, error.code());
    blame_cut(file, limits, label, error);
  }
#endif
  const auto end = static_cast<std::size_t>(preludes.first.end);
  const auto read = preludes.layered ? file : file.first(end);
  auto digest = std::make_shared<FileDigest>(read, label, check != DigestCheck::kNever,
                                             preludes.layered ? end : 0);
#ifndef GBC_FREESTANDING
  if (known) digest = std::make_shared<FileDigest>(read, label, *known);
#endif
  if (check == DigestCheck::kAtOnce) digest->check();
  const auto parse_read = [&] {
    if (optional_parts::kDeltas && preludes.layered)
      return parse_layers(owner, file, label, limits, end, digest);
    ArtifactReader reader = parse_content(owner, read, label, limits, digest);
    if (read.size() < file.size() && !reader.is_draft_) refuse_more(label);
    if (reader.is_rest_)
      throw Error(Errc::kCorrupt,
                  label + " is an exact part without its draft; get the whole file");
    return reader;
  };
#ifdef GBC_FREESTANDING  // libgbz compares the digest at once
  return parse_read();
#else
  try {
    ArtifactReader reader = parse_read();
    if (reader.output_bytes_ / kUsualExpansion > reader.file_bytes()) digest->check();
    return reader;
  } catch (const Error&) {
    digest->check();  // damage is the reason where there is some
    throw;
  }
#endif
}

ArtifactReader ArtifactReader::parse_layers(const std::shared_ptr<const void>& owner,
                                            std::span<const std::byte> file,
                                            const std::string& label, const ArtifactLimits& limits,
                                            std::size_t draft_bytes,
                                            const std::shared_ptr<FileDigest>& digest) {
  ArtifactReader draft = parse_content(owner, file.first(draft_bytes), label, limits, digest);
  if (!draft.is_draft_) refuse_more(label);
  ArtifactReader rest = parse_content(owner, file.subspan(draft_bytes), label, limits, digest);
  if (!rest.is_rest_)
    throw Error(Errc::kCorrupt, label + ": another file than its exact part follows its draft");
  if (rest.arch_.empty()) rest.arch_ = draft.arch_;
  if (rest.settings_.empty()) rest.settings_ = draft.settings_;
  rest.header_bytes_ += draft.header_bytes_;
  rest.draft_ = std::make_shared<const DraftValues>(std::move(draft), rest.tensors_, label);
  return rest;
}

ArtifactReader ArtifactReader::parse_content(std::shared_ptr<const void> owner,
                                             std::span<const std::byte> file, std::string label,
                                             const ArtifactLimits& limits,
                                             const std::shared_ptr<FileDigest>& digest) {
  const Prelude prelude = read_prelude(file, limits, label);
  ArtifactReader reader;
  reader.digest_ = digest;
  const auto stored = file.subspan(static_cast<std::size_t>(prelude.header_offset),
                                   static_cast<std::size_t>(prelude.header_stored));
  Header header = parse_header(unpack(stored, prelude.packed ? Packing::kZstd : Packing::kRaw,
                                      prelude.header_raw, 1, label + ": header"),
                               limits, label);
  std::int64_t offset = prelude.header_offset + prelude.header_stored;
  const std::int64_t end = sections_end(header, file, offset, label);
  const auto& [stored_originals, raw_originals, packing] = header.originals;
  reader.originals_ = {end, stored_originals, raw_originals, packing};
  for (const SectionEntry& entry : header.sections) {
    if (entry.stored > end - offset)
      throw Error(Errc::kCorrupt, label + " declares sections beyond its end");
    reader.sections_.push_back(
        {.offset = offset, .stored = entry.stored, .raw = entry.raw, .packing = entry.packing});
    offset += entry.stored;
  }
  const bool small = optional_parts::kSmall && header.profile == CodecProfile::kSmall;
  std::size_t last = header.tensors.size();
  for (std::size_t i = 0; i < header.tensors.size(); ++i) {
    if (!is_coded(header.tensors[i])) continue;
    last = i;
    if (small) reader.sections_[i] = {.offset = offset, .stored = end - offset};
  }
  std::vector<std::int64_t> stored_bytes;
  for (const SectionRef& ref : reader.sections_) stored_bytes.push_back(ref.stored);
  check_integers(header, stored_bytes, label);
  const bool streamed = small && last < header.tensors.size();
  LanesBytes lanes;
  if (header.profile == CodecProfile::kLanes) {
    lanes = lanes_bytes(header, file, offset, end, label);
    lanes.digest = digest;
    offset = end;
  }
  if (offset != end && !streamed)
    throw Error(Errc::kCorrupt, label + " has bytes between its sections and its digest");
  reader.label_ = std::move(label);
  reader.arch_ = std::move(header.arch);
  reader.settings_ = std::move(header.settings);
  reader.is_draft_ = header.part == FilePart::kDraft;
  reader.is_rest_ = header.part == FilePart::kRest;
  reader.bases_ = std::move(header.bases);
  reader.own_digest_ = std::move(header.digest);
  reader.tensors_ = std::move(header.tensors);
  reader.profile_ = header.profile;
  reader.output_bytes_ = header.output_bytes;
  reader.header_bytes_ = prelude.header_stored;
  reader.file_ = std::move(owner);
  reader.bytes_ = file;
  reader.open_integers(std::move(lanes), last);
  return reader;
}

void ArtifactReader::open_integers(LanesBytes lanes, std::size_t last) {
  std::vector<std::span<const std::byte>> sections;
  for (std::size_t i = 0; i < tensors_.size(); ++i) sections.push_back(section(i));
  if (profile_ == CodecProfile::kLanes)
    integers_ =
        std::make_shared<Integers>(file_, tensors_, std::move(sections), std::move(lanes), label_);
  else if (optional_parts::kSmall && last < tensors_.size())
    integers_ = std::make_shared<Integers>(profile_, file_, std::move(sections), last, label_);
}

std::int64_t ArtifactReader::file_bytes() const noexcept {
  return static_cast<std::int64_t>(whole().size());
}

/// The parts lie one behind the other.
std::span<const std::byte> ArtifactReader::whole() const noexcept {
  if (!draft_values()) return bytes_;
  const auto before = draft_->reader().bytes_;
  return {before.data(), before.size() + bytes_.size()};
}

const DraftValues* ArtifactReader::draft_values() const noexcept {
  return optional_parts::kDeltas ? draft_.get() : nullptr;
}

const ArtifactReader* ArtifactReader::draft() const noexcept {
  return draft_values() ? &draft_->reader() : nullptr;
}

const std::string& ArtifactReader::identity() const { return digest_->identity(); }

void ArtifactReader::check_digest() const { digest_->check(); }

void ArtifactReader::verify() const {
  FileDigest(whole(), label_).check();
  if (draft_) draft_->reader().verify();
  blame_damage(*this, [&] {
#ifndef GBC_FREESTANDING
    originals();
#endif
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      if (has_spec(tensors_[i].kind)) theta(i);
      if (tensors_[i].kind == TensorKind::kExact) plain(i);
#ifndef GBZ_WITHOUT_PIECES
      for (std::size_t n = 0; n < tensors_[i].pieces.size(); ++n)
        if (tensors_[i].pieces[n].source == TensorPiece::Source::kNone) unpacked_piece(i, n);
#endif
      if (!has_values(tensors_[i])) continue;
      const CodedValues values = coded(i);
      if (values.levels.used()) level_elements(values);
    }
  });
}

const ArtifactTensor& ArtifactReader::entry(std::size_t tensor, bool fits, const char* kind) const {
  if (!fits)
    throw Error(Errc::kUsage,
                label_ + ": tensor " + std::to_string(tensor) + " is not a " + kind + " one");
  return tensors_[tensor];
}

std::span<const std::byte> ArtifactReader::section(std::size_t tensor) const {
  const SectionRef& ref = sections_[tensor];
  return bytes_.subspan(static_cast<std::size_t>(ref.offset), static_cast<std::size_t>(ref.stored));
}

std::vector<std::byte> ArtifactReader::unpacked(std::size_t tensor) const {
  const SectionRef& ref = sections_[tensor];
  const std::string label = label_ + ": " + printable(tensors_[tensor].name);
  std::vector<std::byte> bytes =
      optional_parts::kBlocks && ref.packing == Packing::kBlocks
          ? unpack_blocks(section(tensor), static_cast<std::size_t>(ref.raw),
                          tensors_[tensor].block_type, label)
          : unpack(section(tensor), ref.packing, ref.raw, plane_bytes(tensors_[tensor]), label);
  digest_->keep_up(static_cast<std::size_t>(ref.stored));
  return bytes;
}

std::vector<float> ArtifactReader::theta(std::size_t tensor) const {
  const bool fits = tensor < tensors_.size() && has_spec(tensors_[tensor].kind);
  const ArtifactTensor& stored = entry(tensor, fits, "generated");
  if (stored.coding != Coding::kCoded)
    return decode_theta(stored.spec, stored.coding, unpacked(tensor),
                        label_ + ": " + printable(stored.name));
  const auto numbers = integers_->get(tensors_, tensor);
  const auto count = static_cast<std::size_t>(spec_parameters(stored.spec));
  return coded_floats(stored.spec,
                      {stored.theta_steps, from_blocks(stored.spec, numbers->span().first(count))});
}

#ifndef GBC_FREESTANDING  // libgbz reads tensors alone
std::vector<std::byte> ArtifactReader::originals() const {
  const auto stored = bytes_.subspan(static_cast<std::size_t>(originals_.offset),
                                     static_cast<std::size_t>(originals_.stored));
  return unpack(stored, originals_.packing, originals_.raw, 1, label_ + ": its original files");
}
#endif

std::vector<std::byte> ArtifactReader::plain(std::size_t tensor) const {
  entry(tensor, tensor < tensors_.size() && tensors_[tensor].kind == TensorKind::kExact, "exact");
  return unpacked(tensor);
}

CodedValues ArtifactReader::coded(std::size_t tensor) const {
  const bool fits = tensor < tensors_.size() && has_values(tensors_[tensor]);
  const ArtifactTensor& stored = entry(tensor, fits, "quantized");
  const auto numbers = integers_->get(tensors_, tensor);
  const auto values = numbers->span().last(static_cast<std::size_t>(stored.grid.size()));
  CodedValues result{.grid = stored.grid,
                     .step = stored.step,
                     .mantissa_bits = stored.mantissa_bits,
                     .nibbles = stored.nibbles,
                     .axis = stored.axis,
                     .on_base = stored.on_base,
                     .levels = stored.levels};
  result.integers.assign(values.begin(), values.end());
  if (stored.levels.used()) {
    const auto table = static_cast<std::size_t>(level_grid(stored.levels, stored.grid).size());
    const auto before = numbers->span().last(values.size() + table).first(table);
    result.level_table.assign(before.begin(), before.end());
  }
  if (stored.mantissa_bits > 0) {
    const std::int32_t codes = float_codes(stored.mantissa_bits);
    for (const std::int32_t n : result.integers)
      if (n <= -codes || n >= codes)
        throw Error(Errc::kCorrupt,
                    label_ + ": " + printable(stored.name) + " has a malformed short float");
  }
  if (!is_real(stored.dtype)) {
    const auto [least, largest] = integer_range(stored.dtype, stored.nibbles);
    for (const std::int32_t n : result.integers)
      if (n + std::int64_t{stored.step} < least || n + std::int64_t{stored.step} > largest)
        throw Error(Errc::kCorrupt, label_ + ": " + printable(stored.name) +
                                        " has a value that its type cannot hold");
  }
  if (!stored.row_steps) return result;
  const auto rows = static_cast<std::size_t>(stored.grid.rows);
  const auto offsets = numbers->span().last(values.size() + rows).first(rows);
  for (const std::int32_t offset : offsets)
    if (offset < kMinStep - stored.step || offset > kMaxStep - stored.step)
      throw Error(Errc::kCorrupt,
                  label_ + ": " + printable(stored.name) + " has a row whose step is out of range");
  result.row_steps.assign(offsets.begin(), offsets.end());
  return result;
}

std::vector<std::span<const std::byte>> ArtifactReader::parts(std::size_t tensor) const {
  if (tensor >= tensors_.size()) return {};
  tensor = owner_of(*this, tensor);
  if (lanes() && in_stripes(tensors_[tensor])) return lanes()->bytes_of(tensor);
  std::vector<std::span<const std::byte>> parts;
  if (draft_values() && needs_base(tensors_[tensor]))
    parts = draft_->reader().parts(draft_->place(tensor));
  if (sections_[tensor].stored > 0) parts.push_back(section(tensor));
  return parts;
}

std::span<const std::byte> ArtifactReader::change(std::size_t tensor) const {
  entry(tensor,
        tensor < tensors_.size() && (tensors_[tensor].kind == TensorKind::kChange ||
                                     tensors_[tensor].kind == TensorKind::kBlocks),
        "changed");
  return section(tensor);
}

std::unique_ptr<const PlanesReader> ArtifactReader::planes(std::size_t tensor) const {
  if (!optional_parts::kPlanes || tensor >= tensors_.size() ||
      tensors_[tensor].kind != TensorKind::kExact || sections_[tensor].packing != Packing::kPlanes)
    return nullptr;
  auto planes = std::make_unique<const PlanesReader>(
      section(tensor), static_cast<std::size_t>(sections_[tensor].raw),
      static_cast<std::size_t>(plane_bytes(tensors_[tensor])),
      label_ + ": " + printable(tensors_[tensor].name));
#ifndef GBC_FREESTANDING  // whose bytes belong to its caller
  // Finding the stripes has touched pages all over the section.
  release_pages(section(tensor));
#endif
  return planes;
}

std::span<const std::byte> ArtifactReader::as_stored(std::size_t tensor) const {
  if (tensor >= tensors_.size() || tensors_[tensor].kind != TensorKind::kExact ||
      sections_[tensor].packing != Packing::kRaw)
    return {};
  return section(tensor);
}

void ArtifactReader::keep_up(std::size_t bytes) const noexcept { digest_->keep_up(bytes); }

const LanesReader* ArtifactReader::lanes() const noexcept {
  return integers_ ? integers_->lanes() : nullptr;
}

std::vector<std::byte> ArtifactReader::constant(std::size_t tensor) const {
  const bool fits = tensor < tensors_.size() && tensors_[tensor].kind == TensorKind::kConstant;
  return entry(tensor, fits, "constant").element;
}

std::vector<double> ArtifactReader::tensor_bits() const {
  std::vector<double> bits = own_bits();
  if (!draft_) return bits;
  const std::vector<double> before = draft_->reader().tensor_bits();
  for (std::size_t i = 0; i < bits.size(); ++i)
    if (draft_->has(i)) bits[i] += before[draft_->place(i)];
  return bits;
}

std::vector<double> ArtifactReader::own_bits() const {
  std::vector<double> bits;
  if (integers_ && integers_->lanes()) {
    bits = integers_->lanes()->tensor_bits();
    for (std::size_t i = 0; i < tensors_.size(); ++i)
      if (!in_stripes(tensors_[i])) bits[i] = 8.0 * static_cast<double>(tensors_[i].stored_bytes);
    return bits;
  }
  IntegerEncoder encoder(CodecProfile::kSmall);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!is_coded(tensors_[i])) {
      bits.push_back(8.0 * static_cast<double>(tensors_[i].stored_bytes));
      continue;
    }
    const double before = encoder.ideal_bits();
    encode_integers(encoder, tensors_[i], integers_->get(tensors_, i)->span());
    bits.push_back(encoder.ideal_bits() - before);
  }
  return bits;
}

}  // namespace gbcompress
