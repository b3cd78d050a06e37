#include <algorithm>
#include <utility>

#include "artifact/coding.h"
#include "artifact/header.h"
#include "artifact/packing.h"
#include "base/digest.h"
#include "base/file.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::string_view stored_digest(std::span<const std::byte> file) {
  const auto digest = file.last(kDigestBytes);
  return {reinterpret_cast<const char*>(digest.data()), digest.size()};
}

void check_digest(std::span<const std::byte> file, const std::string& label) {
  if (sha256(file.first(file.size() - kDigestBytes)) != stored_digest(file))
    throw Error(Errc::kCorrupt, label + " is damaged: its digest does not fit; copy it again");
}

}  // namespace

ArtifactReader ArtifactReader::open(const std::filesystem::path& path,
                                    const ArtifactLimits& limits) {
  const MappedFile file(path);
  const std::string label = printable(path.string());
  read_prelude(file.bytes(), limits, label);  // before the file is copied
  return from_bytes({file.bytes().begin(), file.bytes().end()}, label, limits);
}

ArtifactReader ArtifactReader::from_bytes(std::vector<std::byte> bytes, std::string label,
                                          const ArtifactLimits& limits) {
  const Prelude prelude = read_prelude(bytes, limits, label);
  check_digest(bytes, label);
  const std::span<const std::byte> file(bytes);
  const auto stored = file.subspan(kPreludeBytes, static_cast<std::size_t>(prelude.header_stored));
  const bool packed = prelude.header_stored < prelude.header_raw;
  Header header = parse_header(unpack(stored, packed ? Packing::kZstd : Packing::kRaw,
                                      prelude.header_raw, 1, label + ": header"),
                               limits, label);
  ArtifactReader reader;
  std::int64_t offset = kPreludeBytes + prelude.header_stored;
  const std::int64_t end = static_cast<std::int64_t>(bytes.size()) - kDigestBytes;
  for (const SectionEntry& entry : header.sections) {
    if (entry.stored > end - offset)
      throw Error(Errc::kCorrupt, label + " declares sections beyond its end");
    reader.sections_.push_back({.offset = offset,
                                .stored = entry.stored,
                                .raw = entry.raw,
                                .xxh3 = entry.xxh3,
                                .packing = entry.packing});
    offset += entry.stored;
  }
  if (offset != end)
    throw Error(Errc::kCorrupt, label + " has bytes between its sections and its digest");
  reader.identity_ = to_hex(stored_digest(bytes));
  reader.label_ = std::move(label);
  reader.arch_ = std::move(header.arch);
  reader.settings_ = std::move(header.settings);
  reader.tensors_ = std::move(header.tensors);
  reader.output_bytes_ = header.output_bytes;
  reader.header_bytes_ = prelude.header_stored;
  reader.bytes_ = std::move(bytes);
  return reader;
}

bool ArtifactReader::is_artifact(const std::filesystem::path& path) {
  const MappedFile file(path);
  return file.bytes().size() >= kMagic.size() &&
         std::equal(kMagic.begin(), kMagic.end(),
                    reinterpret_cast<const char*>(file.bytes().data()));
}

std::int64_t ArtifactReader::file_bytes() const noexcept {
  return static_cast<std::int64_t>(bytes_.size());
}

void ArtifactReader::verify() const {
  check_digest(bytes_, label_);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (tensors_[i].kind == TensorKind::kGenerated) theta(i);
    if (tensors_[i].kind == TensorKind::kPlain) plain(i);
  }
}

std::vector<std::byte> ArtifactReader::section(std::size_t tensor, TensorKind kind) const {
  if (tensor >= tensors_.size() || tensors_[tensor].kind != kind)
    throw Error(Errc::kUsage, label_ + ": tensor " + std::to_string(tensor) + " is not a " +
                                  (kind == TensorKind::kPlain ? "plain" : "generated") + " one");
  const SectionRef& ref = sections_[tensor];
  const std::string label = label_ + ": " + printable(tensors_[tensor].name);
  const auto stored = std::span(bytes_).subspan(static_cast<std::size_t>(ref.offset),
                                                static_cast<std::size_t>(ref.stored));
  if (xxh3_64(stored) != ref.xxh3)
    throw Error(Errc::kCorrupt, label + " is damaged: its checksum does not fit");
  return unpack(stored, ref.packing, ref.raw, plane_bytes(tensors_[tensor]), label);
}

std::vector<float> ArtifactReader::theta(std::size_t tensor) const {
  const auto bytes = section(tensor, TensorKind::kGenerated);
  const ArtifactTensor& entry = tensors_[tensor];
  return decode_theta(entry.plan, entry.coding, bytes, label_ + ": " + printable(entry.name));
}

std::vector<std::byte> ArtifactReader::plain(std::size_t tensor) const {
  return section(tensor, TensorKind::kPlain);
}

}  // namespace gbcompress
