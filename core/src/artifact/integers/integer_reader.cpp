#include "artifact/integers/integers.h"
#include "base/optional_parts.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::shared_ptr<const IntegerBuffer> decode(IntegerDecoder& decoder, const ArtifactTensor& tensor) {
  auto integers =
      std::make_shared<const IntegerBuffer>(static_cast<std::size_t>(integer_count(tensor)));
  for_grids(tensor, integers->span(),
            [&](const IntegerGrid& grid, std::size_t first, std::span<const std::uint8_t> prior) {
              decoder.read(grid,
                           integers->span().subspan(first, static_cast<std::size_t>(grid.size())),
                           prior);
            });
  return integers;
}

}  // namespace

ArtifactReader::Integers::Integers(CodecProfile profile, std::shared_ptr<const void> file,
                                   std::vector<std::span<const std::byte>> sections,
                                   std::size_t last, std::string label)
    : profile_(profile),
      file_(std::move(file)),
      sections_(std::move(sections)),
      last_coded_(last),
      label_(std::move(label)) {}

ArtifactReader::Integers::Integers(std::shared_ptr<const void> file,
                                   const std::vector<ArtifactTensor>& tensors,
                                   std::vector<std::span<const std::byte>> sections,
                                   LanesBytes bytes, std::string label)
    : profile_(CodecProfile::kLanes),
      file_(std::move(file)),
      sections_(std::move(sections)),
      lanes_(std::make_unique<LanesReader>(tensors, std::move(bytes))),
      label_(std::move(label)) {}

ArtifactReader::Integers::Numbers ArtifactReader::Integers::from_lanes(const ArtifactTensor& tensor,
                                                                       std::size_t index) {
  auto integers =
      std::make_shared<const IntegerBuffer>(static_cast<std::size_t>(integer_count(tensor)));
  lanes_->read(index, integers->span());
  return integers;
}

ArtifactReader::Integers::Numbers ArtifactReader::Integers::get(
    const std::vector<ArtifactTensor>& tensors, std::size_t index) {
  try {
    if (!optional_parts::kSmall || in_stripes(tensors[index]))
      return from_lanes(tensors[index], index);
    if (profile_ != CodecProfile::kSmall) return from_section(tensors[index], index);
    const std::lock_guard lock(mutex_);
    return from_stream(tensors, index);
  } catch (const Error& error) {
    {
      const std::lock_guard lock(mutex_);
      decoder_.reset();  // the next call starts anew and fails in the same way
      kept_.clear();
    }
    throw Error(error.code(), label_ + ": " + printable(tensors[index].name) +
                                  ": the coded integers are wrong: " + error.what());
  }
}

ArtifactReader::Integers::Numbers ArtifactReader::Integers::from_stream(
    const std::vector<ArtifactTensor>& tensors, std::size_t index) {
  if (!decoder_ && kept_.empty()) decoder_.emplace(profile_, sections_[index]);
  while (kept_.size() <= index) {
    const ArtifactTensor& tensor = tensors[kept_.size()];
    const bool coded = has_values(tensor) || has_coded_theta(tensor);
    kept_.push_back(coded ? decode(*decoder_, tensor) : nullptr);
    if (kept_.size() == last_coded_ + 1) decoder_->finish();
  }
  return kept_[index];
}

ArtifactReader::Integers::Numbers ArtifactReader::Integers::from_section(
    const ArtifactTensor& tensor, std::size_t index) {
  {
    const std::lock_guard lock(mutex_);
    if (recent_numbers_ && recent_ == index) return recent_numbers_;
    recent_numbers_.reset();  // before the next one: never two at a time for one caller
  }
  // Sections do not know of each other: callers on several threads decode side by side.
  IntegerDecoder decoder(tensor.profile, sections_[index]);
  Numbers numbers = decode(decoder, tensor);
  decoder.finish();
  // Only g-nets and values of one tensor are read one after another.
  if (!has_coded_theta(tensor)) return numbers;
  const std::lock_guard lock(mutex_);
  recent_ = index;
  return recent_numbers_ = std::move(numbers);
}

}  // namespace gbcompress
