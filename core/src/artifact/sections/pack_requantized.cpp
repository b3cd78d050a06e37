// Sections of requantized tensors, as the writer makes them.
#include <array>
#include <cmath>
#include <cstring>

#include "artifact/sections/blocks.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/requantized_parts.h"
#include "artifact/sections/varint.h"
#include "gbcompress/codec.h"

namespace gbcompress {
namespace {

using Bytes = std::vector<std::byte>;

/// Blocks that tell whether the reference made a tensor, from all over it, and the least share of
/// them that it has to have made: else their scales are others.
constexpr std::size_t kSampled = 256;
constexpr double kLeastMade = 0.5;
/// Bytes of a section that names the reference alone.
constexpr std::size_t kNothingChanged = 2;
/// Above twice as many blocks the form is chosen by a sample: so many pieces of so many blocks.
constexpr std::size_t kTrialPieces = 64, kTrialBlocks = 32;

void append_bytes_to(Bytes& to, std::span<const std::byte> bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Bytes change_of(std::span<const std::byte> before, std::span<const std::byte> now) {
  const auto size = static_cast<std::int64_t>(now.size());
  return encode_change(DType::kU8, std::span(&size, 1), before, now);
}

/// Of no other numbers weights are made.
bool are_finite(const BaseValues& base) {
  std::vector<float> values(std::size_t{1} << 14);
  const auto element = static_cast<std::size_t>(dtype_bits(base.dtype)) / 8;
  for (std::size_t at = 0; at < base.bytes.size();) {
    const auto some =
        base.bytes.subspan(at, std::min(values.size() * element, base.bytes.size() - at));
    const auto numbers = std::span(values).first(some.size() / element);
    floats_of(some, base.dtype, numbers);
    if (!std::ranges::all_of(numbers, [](float value) { return std::isfinite(value); }))
      return false;
    at += some.size();
  }
  return true;
}

class RequantizedWriter {
 public:
  RequantizedWriter(std::span<const std::byte> blocks, const gguf::BlockLayout& layout,
                    const BaseValues& base, int threads)
      : blocks_(blocks), layout_(layout), base_(base), threads_(threads) {}

  /// @throws as pack_blocks()
  Bytes write() const {
    const std::vector<gguf::Rounding> roundings = sampled_roundings();
    if (roundings.empty()) return with_scales();
    const std::size_t count = blocks_.size() / layout_.bytes;
    if (count <= 2 * kTrialPieces * kTrialBlocks) return smallest(roundings).second;
    const auto element = static_cast<std::size_t>(dtype_bits(base_.dtype)) / 8;
    const Bytes blocks = pieces_of(blocks_, layout_.bytes, kTrialPieces, kTrialBlocks),
                values =
                    pieces_of(base_.bytes, static_cast<std::size_t>(layout_.weights()) * element,
                              kTrialPieces, kTrialBlocks);
    const BaseValues base{values, base_.dtype};
    return with(RequantizedWriter(blocks, layout_, base, 1).smallest(roundings).first);
  }

 private:
  /// The roundings under which enough of the sampled blocks are the reference's, the better first.
  std::vector<gguf::Rounding> sampled_roundings() const {
    const std::size_t count = blocks_.size() / layout_.bytes,
                      step = (count + kSampled - 1) / kSampled;
    const auto weights = static_cast<std::size_t>(layout_.weights());
    const auto element = static_cast<std::size_t>(dtype_bits(base_.dtype)) / 8;
    std::array<std::size_t, 2> made{};
    std::size_t sampled = 0;
    for (std::size_t at = step / 2; at < count; at += step, ++sampled) {
      const auto block = blocks_.subspan(at * layout_.bytes, layout_.bytes);
      const BaseValues some{base_.bytes.subspan(at * weights * element, weights * element),
                            base_.dtype};
      Bytes trial(layout_.bytes);
      for (std::size_t r = 0; r < made.size(); ++r) {
        make_reference(layout_, static_cast<gguf::Rounding>(r), some, trial, 1);
        made[r] += std::ranges::equal(trial, block) ? 1 : 0;
      }
    }
    std::vector<gguf::Rounding> roundings;
    const std::size_t best = made[1] > made[0] ? 1 : 0;
    for (const std::size_t r : {best, 1 - best})
      if (static_cast<double>(made[r]) >= kLeastMade * static_cast<double>(sampled))
        roundings.push_back(static_cast<gguf::Rounding>(r));
    return roundings;
  }

  struct Form {
    RequantizedForm form;
    gguf::Rounding rounding;
  };

  std::pair<Form, Bytes> smallest(const std::vector<gguf::Rounding>& roundings) const {
    std::optional<std::pair<Form, Bytes>> least;
    for (const gguf::Rounding rounding : roundings)
      for (const RequantizedForm form :
           {RequantizedForm::kReference, RequantizedForm::kCorrected}) {
        Bytes section = with({form, rounding});
        if (!least || section.size() < least->second.size())
          least = {{form, rounding}, std::move(section)};
        if (least->second.size() == kNothingChanged) return *std::move(least);
      }
    return *std::move(least);
  }

  Bytes with(Form form) const {
    Bytes section{static_cast<std::byte>(form.form), static_cast<std::byte>(form.rounding)};
    Bytes made(blocks_.size());
    make_reference(layout_, form.rounding, base_, made, threads_);
    if (form.form == RequantizedForm::kReference) {
      if (!std::ranges::equal(made, blocks_)) append_bytes_to(section, change_of(made, blocks_));
      return section;
    }
    Bytes scales = own_scales();
    gguf::clear_quants(layout_, made);
    append_sized(section, change_of(made, scales));
    append_rest(section, scales);
    return section;
  }

  Bytes with_scales() const {
    Bytes section{static_cast<std::byte>(RequantizedForm::kScales)}, scales = own_scales();
    append_sized(section, pack_blocks(scales, layout_.type, threads_, /*quants=*/false));
    append_rest(section, scales);
    return section;
  }

  Bytes own_scales() const {
    Bytes scales(blocks_.begin(), blocks_.end());
    gguf::clear_quants(layout_, scales);
    return scales;
  }
  static void append_sized(Bytes& to, const Bytes& part) {
    append_varint(to, static_cast<std::int64_t>(part.size()));
    append_bytes_to(to, part);
  }
  /// What differs where quants are the nearest ones.
  void append_rest(Bytes& to, Bytes& scales) const {
    make_quants(layout_, base_, scales, threads_);
    if (!std::ranges::equal(scales, blocks_)) append_bytes_to(to, change_of(scales, blocks_));
  }

  std::span<const std::byte> blocks_;
  const gguf::BlockLayout& layout_;
  const BaseValues& base_;
  int threads_;
};

}  // namespace

std::optional<Bytes> pack_requantized(std::span<const std::byte> blocks, std::uint32_t type,
                                      const BaseValues& base, int threads) {
  const gguf::BlockLayout* const layout = gguf::find_block_layout(type);
  if (!layout || !layout->even || blocks.empty() || !are_finite(base)) return {};
  return RequantizedWriter(blocks, *layout, base, threads).write();
}

}  // namespace gbcompress
