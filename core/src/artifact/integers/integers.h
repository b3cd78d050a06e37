#pragma once
/// The integers of an artifact in the order in which they are coded
/// (docs/reference/artifact-integers.md).

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "artifact/integers/lanes_reader.h"
#include "base/internal.h"
#include "gbcompress/artifact.h"

namespace GBC_INTERNAL gbcompress {

/// @param label  names the tensor
/// @throws Error(kUsage, kShapeMismatch) for sizes, steps or integers that no file may hold
void check_values(const CodedValues& values, const std::string& label);
void check_theta(const GNetSpec& spec, const CodedTheta& theta, const std::string& label);
/// True for a grid of that many numbers whose stride lies inside a row.
bool is_grid(const IntegerGrid& grid, std::int64_t elements) noexcept;

bool has_default_grid(const ArtifactTensor& tensor);

/// Whether a tensor's values, or its g-nets' parameters, are integers of the file.
bool has_values(const ArtifactTensor& tensor) noexcept;
bool has_coded_theta(const ArtifactTensor& tensor) noexcept;

/// Grids of a specification's coded parameters, block by block.
std::vector<IntegerGrid> theta_grids(const GNetSpec& spec);
/// How one tensor's integers are coded: first its g-nets, block by block, then the offsets of its
/// rows, then its values.
std::vector<IntegerGrid> integer_grids(const ArtifactTensor& tensor);
std::int64_t integer_count(const ArtifactTensor& tensor);

/// Whether a tensor's integers are in stripes.
bool in_stripes(const ArtifactTensor& tensor) noexcept;

/// Integers of a file up to which every byte counts more than a few seconds do; of more, they
/// are in stripes.
inline constexpr std::int64_t kAutoSmall = 4'000'000;

/// Whether the profile small codes such grids.
bool fits_small(std::span<const IntegerGrid> grids) noexcept;
/// Whether `stored` bytes can hold that many integers: every one takes some part of a bit.
bool can_hold(CodecProfile profile, std::int64_t stored, std::int64_t integers) noexcept;

/// @param integers  [tiles, parameters] to blocks of all tiles one after another, or back
std::vector<std::int32_t> to_blocks(const GNetSpec& spec, std::span<const std::int32_t> integers);
std::vector<std::int32_t> from_blocks(const GNetSpec& spec, std::span<const std::int32_t> blocks);

/// Whether a g-net's prior class conditions the coding of each of the tensor's values.
bool has_prior_classes(const ArtifactTensor& tensor) noexcept;
/// @param blocks  the g-nets' integers, in the order of theta_grids()
/// @return one a value, in the order of the tensor
std::vector<std::uint8_t> prior_classes(const ArtifactTensor& tensor,
                                        std::span<const std::int32_t> blocks);

/// Calls code(grid, first integer, classes) for the grids of a tensor in their order: the classes
/// of the values, where there are some, come from the integers before, which `code` must have
/// filled in by then.
/// @param integers  in the order of integer_grids()
template <typename Code>
void for_grids(const ArtifactTensor& tensor, std::span<const std::int32_t> integers,
               const Code& code) {
  const std::vector<IntegerGrid> grids = integer_grids(tensor);
  std::vector<std::uint8_t> classes;
  std::size_t first = 0;
  for (std::size_t g = 0; g < grids.size(); ++g) {
    if (g + 1 == grids.size() && has_prior_classes(tensor))
      classes = prior_classes(
          tensor, integers.first(static_cast<std::size_t>(spec_parameters(tensor.spec))));
    code(grids[g], first, classes);
    first += static_cast<std::size_t>(grids[g].size());
  }
}

/// Adds one tensor's integers, which lie in the order of integer_grids().
void encode_integers(IntegerEncoder& encoder, const ArtifactTensor& tensor,
                     std::span<const std::int32_t> integers);

/// Integers whose memory is not touched before they are decoded: a length that lies takes none.
struct IntegerBuffer {
  explicit IntegerBuffer(std::size_t n)
      : numbers(std::make_unique_for_overwrite<std::int32_t[]>(n)), size(n) {}
  std::span<std::int32_t> span() const { return {numbers.get(), size}; }

  std::unique_ptr<std::int32_t[]> numbers;
  std::size_t size;
};

/// Decodes tensors on request. With the small profile their order is that of the
/// stream, so everything before is decoded and kept.
class ArtifactReader::Integers {
 public:
  /// @param file      holds `sections` in memory
  /// @param sections  one a tensor; with the small profile all are the common stream
  /// @param last      index of the last tensor with integers
  Integers(CodecProfile profile, std::shared_ptr<const void> file,
           std::vector<std::span<const std::byte>> sections, std::size_t last, std::string label);
  /// Of the profile lanes. @param sections  one a tensor, those of profile small
  /// @throws Error(kCorrupt)
  Integers(std::shared_ptr<const void> file, const std::vector<ArtifactTensor>& tensors,
           std::vector<std::span<const std::byte>> sections, LanesBytes bytes, std::string label);
  /// Null with other profiles.
  const LanesReader* lanes() const { return lanes_.get(); }

  /// In the order of integer_grids(). @throws Error(kCorrupt, kTruncated)
  std::shared_ptr<const IntegerBuffer> get(const std::vector<ArtifactTensor>& tensors,
                                           std::size_t index);

 private:
  using Numbers = std::shared_ptr<const IntegerBuffer>;
  Numbers from_stream(const std::vector<ArtifactTensor>& tensors, std::size_t index);
  Numbers from_lanes(const ArtifactTensor& tensor, std::size_t index);
  Numbers from_section(const ArtifactTensor& tensor, std::size_t index);

  const CodecProfile profile_;
  const std::shared_ptr<const void> file_;
  const std::vector<std::span<const std::byte>> sections_;
  const std::size_t last_coded_ = 0;
  const std::unique_ptr<const LanesReader> lanes_;
  const std::string label_;
  std::mutex mutex_;
  std::optional<IntegerDecoder> decoder_;  ///< small: in front of tensor kept_.size()
  std::vector<Numbers> kept_;              ///< small: of the tensors before, null without integers
  std::size_t recent_ = 0;                 ///< of sections: the tensor that was read last
  Numbers recent_numbers_;
};

}  // namespace gbcompress
