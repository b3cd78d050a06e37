#include "artifact/file_segments.h"

#include <mutex>
#include <utility>

#include "artifact/header/header.h"
#include "artifact/model_files.h"
#include "artifact/read_many.h"
#include "base/checked.h"
#include "base/fresh_memory.h"
#include "format/payload.h"
#include "gbcompress/error.h"

namespace gbcompress {

FileSegments::FileSegments(const ArtifactReader& artifact, std::vector<ContainerFile> files,
                           std::vector<OriginalFile> originals, DecodeOptions options)
    : artifact_(artifact),
      label_(label_of(artifact)),
      contents_(std::move(files)),
      originals_(std::move(originals)),
      options_(std::move(options)),
      apart_(decodes_apart(artifact)) {
  if (apart_) options_.threads = 1;  // parts are made on several threads
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < contents_.size(); ++i)
    for (std::size_t k = 0; k < contents_[i].holes.size(); ++k)
      if (in_stripes(i, k)) order.push_back(owner_of(artifact, contents_[i].holes[k].tensor));
  stripes_.emplace(artifact, order, [this](std::size_t tensor) { return whole(tensor); });
  for (const std::int64_t bytes : stripes_->sizes())
    parts_.push_back({.bytes = bytes, .stripe = parts_.size()});
  std::vector<std::size_t> first(order.size() + 1);
  for (std::size_t n = 0; n < order.size(); ++n) first[n + 1] = first[n] + stripes_->parts(n);
  std::size_t next = 0;
  for (std::size_t i = 0; i < contents_.size(); ++i) lay_out(i, first, next);
}

/// Whether the elements are in the file as they are decoded, and are not in the artifact as they
/// are.
bool FileSegments::in_stripes(std::size_t file, std::size_t hole) const {
  const Hole& each = contents_[file].holes[hole];
  const bool ordered = !originals_.empty() && originals_[file].orders.contains(hole);
  return each.encoding == PayloadEncoding::kBytes && !ordered &&
         artifact_.as_stored(owner_of(artifact_, each.tensor)).empty() &&
         payload_bytes(contents_[file], each) > 0;
}

std::int64_t FileSegments::payload_bytes(const ContainerFile& file, const Hole& hole) const {
  const ArtifactTensor& tensor = artifact_.tensors()[hole.tensor];
  const std::int64_t elements = checked_elements(tensor.shape, "a tensor");
  switch (hole.encoding) {
    case PayloadEncoding::kBytes:
      return tensor_bytes(tensor.shape, tensor.dtype);
    case PayloadEncoding::kVarint:
      return static_cast<std::int64_t>(payload_size(file, hole, label_));
    case PayloadEncoding::kQ8_0:
      return elements / static_cast<std::int64_t>(kQ8Elements) *
             static_cast<std::int64_t>(kQ8Bytes);
    case PayloadEncoding::kAffine:
      return elements * dtype_bits(hole.affine.dtype) / 8;
  }
  return 0;
}

void FileSegments::lay_out(std::size_t file, std::span<const std::size_t> first,
                           std::size_t& next) {
  const ContainerFile& content = contents_[file];
  SegmentedFile& made = files_.emplace_back(SegmentedFile{.name = content.name});
  const auto add = [&](FileSegment segment) {
    segment.begin = made.bytes;
    made.bytes = checked_add(made.bytes, segment.bytes, "a file");
    if (segment.bytes > 0) made.segments.push_back(segment);
  };
  std::span<const std::byte> skeleton = content.skeleton;
  const auto pass = [&](std::uint64_t bytes) {
    if (bytes > skeleton.size())
      throw Error(Errc::kCorrupt,
                  label_ + ": a hole of its container lies behind the end of its file");
    add({.bytes = static_cast<std::int64_t>(bytes), .at = skeleton.data()});
    skeleton = skeleton.subspan(bytes);
  };
  for (std::size_t i = 0; i < content.holes.size(); ++i) {
    const Hole& hole = content.holes[i];
    pass(hole.before);
    const std::size_t owner = owner_of(artifact_, hole.tensor);
    if (in_stripes(file, i)) {
      for (std::size_t part = first[next]; part < first[next + 1]; ++part)
        add({.bytes = parts_[part].bytes, .part = part, .tensor = hole.tensor});
      ++next;
      continue;
    }
    const bool ordered = !originals_.empty() && originals_[file].orders.contains(i);
    const std::int64_t bytes = payload_bytes(content, hole);
    if (hole.encoding == PayloadEncoding::kBytes && !ordered) {
      const auto stored = artifact_.as_stored(owner);
      add({.bytes = bytes, .at = stored.data(), .tensor = hole.tensor});
      continue;
    }
    add({.bytes = bytes, .part = parts_.size(), .tensor = hole.tensor});
    parts_.push_back({.bytes = bytes, .file = file, .hole = i});
  }
  pass(skeleton.size());
  if (!originals_.empty() && made.bytes != originals_[file].bytes)
    throw Error(Errc::kCorrupt, label_ + ": " + printable(content.name) +
                                    " does not come back as it was, by its size; compress the "
                                    "model again");
}

DecodedTensor FileSegments::whole(std::size_t tensor) {
  std::unique_lock<std::mutex> lock;
  if (!apart_) lock = std::unique_lock(one_by_one_);
  return decode_elements(artifact_, tensor, options_);
}

std::vector<std::byte> FileSegments::payload(const Part& part) {
  const Hole& hole = contents_[part.file].holes[part.hole];
  const ArtifactTensor& tensor = artifact_.tensors()[hole.tensor];
  const DecodedTensor elements = whole(owner_of(artifact_, hole.tensor));
  if (hole.encoding != PayloadEncoding::kBytes)
    return payload_of(hole, elements.bytes(), tensor.dtype, label_);
  const auto& order = originals_[part.file].orders.at(part.hole);
  return ordered_elements(elements.bytes(), tensor, order, label_);
}

/// Most stripes have the size of a chunk.
std::shared_ptr<std::byte> FileSegments::memory(std::size_t bytes) {
  if (bytes <= chunks_->bytes() && bytes > chunks_->bytes() / 2) return chunks_->take();
  const auto own = std::make_shared<const FreshMemory>(bytes);
  return {own, own->data()};
}

HeldBytes FileSegments::make(std::size_t number) {
  const Part& part = parts_[number];
  const auto size = static_cast<std::size_t>(part.bytes);
  HeldBytes held;
  if (!part.stripe) {
    const auto made = std::make_shared<const std::vector<std::byte>>(payload(part));
    held = {*made, made};
  } else if (stripes_->is_whole(*part.stripe)) {
    const auto made = std::make_shared<const FileParts::Made>(stripes_->make(*part.stripe));
    held = {made->bytes(), made};
  } else {
    const std::shared_ptr<std::byte> made = memory(size);
    stripes_->read(*part.stripe, {made.get(), size});
    held = {{made.get(), size}, made};
  }
  if (held.bytes.size() != size)
    throw Error(Errc::kCorrupt, label_ + " has a tensor of another size than it declares");
  return held;
}

}  // namespace gbcompress
