#include "artifact/file_parts.h"

#include <algorithm>

#include "artifact/header/header.h"

namespace gbcompress {

FileParts::FileParts(const ArtifactReader& artifact, std::span<const std::size_t> tensors,
                     std::function<DecodedTensor(std::size_t tensor)> whole)
    : artifact_(artifact), whole_(std::move(whole)) {
  for (const std::size_t tensor : tensors) {
    const ArtifactTensor& entry = artifact.tensors()[tensor];
    counts_.push_back(1);
    if (auto planes = artifact.planes(tensor)) {
      add_planes(tensor, std::move(planes));
      continue;
    }
    if (!DirectValues::fits(artifact, tensor)) {
      parts_.push_back({tensor, 0, tensor_bytes(entry.shape, entry.dtype), nullptr, nullptr});
      whole_parts_ += parts_.back().bytes > static_cast<std::int64_t>(kPlaneStripe);
      continue;
    }
    values_.push_back(std::make_unique<DirectValues>(artifact, tensor));
    const auto& parts = values_.back()->parts();
    counts_.back() = parts.size();
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts_.push_back({tensor, i, parts[i].size * (dtype_bits(entry.dtype) / 8),
                        values_.back().get(), nullptr});
      largest_ = std::max(largest_, static_cast<std::size_t>(parts_.back().bytes));
    }
  }
}

void FileParts::add_planes(std::size_t tensor, std::unique_ptr<const PlanesReader> planes) {
  counts_.back() = planes->stripes();
  for (std::size_t i = 0; i < planes->stripes(); ++i) {
    const std::size_t bytes = planes->bytes_of(i);
    parts_.push_back({tensor, i, static_cast<std::int64_t>(bytes), nullptr, planes.get()});
    // With the planes that it is made of behind it.
    largest_ = std::max(largest_, 2 * bytes);
  }
  planes_.push_back(std::move(planes));
}

std::vector<std::int64_t> FileParts::sizes() const {
  std::vector<std::int64_t> sizes;
  for (const Part& part : parts_) sizes.push_back(part.bytes);
  return sizes;
}

/// One that is not in use any more, if there is one: its memory was touched before.
std::shared_ptr<std::vector<std::byte>> FileParts::buffer() {
  std::unique_ptr<std::vector<std::byte>> taken;
  {
    const std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      taken = std::move(free_.back());
      free_.pop_back();
    }
  }
  if (!taken) taken = std::make_unique<std::vector<std::byte>>(largest_);
  return {taken.release(), [this](std::vector<std::byte>* buffer) {
            std::unique_ptr<std::vector<std::byte>> done(buffer);
            const std::lock_guard lock(mutex_);
            free_.push_back(std::move(done));
          }};
}

void FileParts::decode(const Part& part, std::span<std::byte> to, std::span<std::byte> scratch) {
  if (part.planes) {
    part.planes->read(part.index, to, scratch);
    artifact_.keep_up(part.planes->stored(part.index).size());
  } else {
    part.values->read(part.index, artifact_.tensors()[part.tensor].dtype, to);
  }
}

FileParts::Made FileParts::make(std::size_t part) {
  const Part& made = parts_[part];
  if (is_whole(part)) return Made(whole_(made.tensor));
  auto held = buffer();
  const auto size = static_cast<std::size_t>(made.bytes);
  decode(made, std::span(*held).first(size), std::span(*held).subspan(size));
  return {std::move(held), size};
}

void FileParts::read(std::size_t part, std::span<std::byte> to) {
  const Part& made = parts_[part];
  if (!made.planes) return decode(made, to, {});
  const auto scratch = buffer();
  decode(made, to, *scratch);
}

}  // namespace gbcompress
