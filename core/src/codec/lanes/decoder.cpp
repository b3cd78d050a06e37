#include "codec/lanes/decoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace gbcompress::codec::lanes {

static_assert(std::endian::native == std::endian::little, "words are read as they lie");

void throw_corrupt_stripe() {
  throw Error(Errc::kCorrupt, "a stripe holds what no encoder writes; get the file again");
}

Entries::Entries(const std::vector<TableSet>& sets) {
  for (const TableSet& set : sets) entries_.push_back(make_entries(set));
}

GridDecoder::GridDecoder(const IntegerGrid& form, const GridHead& grid, const Entries& entries)
    : shape_(form),
      grid_(grid),
      entries_(entries.of(grid)),
      dependent_(form.dependent),
      row_size_(form.cols) {}

void GridDecoder::load_columns(std::int64_t list) {
  if (list_ == list) return;
  list_ = list;
  const auto width = static_cast<std::size_t>(shape_.width);
  bases_.assign(width + kLaneCount, 0);
  highest_.assign(width, 0);
  if (!grid_.classes.by_column) return;
  const std::int8_t* const columns = grid_.classes.columns_of(list, shape_.width);
  const int unit = (dependent_ ? 2 : 1) << kTableBits;
  for (std::size_t c = 0; c < bases_.size(); ++c) bases_[c] = unit * columns[c % width];
  // The highest class of 2, 4, ... 64 columns.
  highest_.assign(columns, columns + width);
  for (std::size_t reach = 1; reach < kLaneCount; reach *= 2)
    for (std::size_t c = 0; c + reach < width; ++c)
      highest_[c] = std::max(highest_[c], highest_[c + reach]);
}

BlockInput GridDecoder::input(std::int64_t block) {
  load_columns(grid_.classes.by_block ? block : 0);
  BlockInput input;
  input.entries = entries_;
  input.dependent = dependent_;
  input.width = shape_.width;
  input.values = shape_.size(block);
  input.lines = grid_.classes.lines.data() + block * shape_.block_lines;
  if (grid_.classes.by_column) input.columns = grid_.classes.columns_of(block, shape_.width);
  input.bases = bases_.data();
  input.highest = highest_.data();
  input.scale = scale_;
  input.row_scales = row_scales_;
  input.first = shape_.first(block);
  input.row_size = row_size_;
  return input;
}

StripeReader::StripeReader(std::span<const std::byte> stripe, std::size_t readable) {
  if (stripe.size() < kLeastStripe || stripe.size() % 4 != 0)
    throw Error(Errc::kTruncated, "a stripe of " + std::to_string(stripe.size()) +
                                      " bytes is none; get the file again");
  if (readable < stripe.size() + kReadBeyond) {
    copy_.resize(stripe.size() + kReadBeyond);
    std::copy(stripe.begin(), stripe.end(), copy_.begin());
    stripe = std::span(copy_).first(stripe.size());
  }
  std::uint32_t words;
  std::memcpy(&words, stripe.data(), sizeof words);
  std::memcpy(cursor_.states.data(), stripe.data() + sizeof words, sizeof cursor_.states);
  const auto least = std::min_element(cursor_.states.begin(), cursor_.states.end());
  const std::span<const std::byte> rest = stripe.subspan(kLeastStripe);
  if (*least < 1u << 16 || words > rest.size() / 2) throw_corrupt_stripe();
  cursor_.word = rest.data();
  cursor_.words_end = cursor_.escape = rest.data() + 2 * std::size_t{words};
  cursor_.escapes_end = rest.data() + rest.size();
}

void StripeReader::finish() const {
  for (const std::uint32_t state : cursor_.states)
    if (state != 1u << 16) throw_corrupt_stripe();
  // Zeros fill up to four bytes.
  const std::span rest(cursor_.escape, cursor_.escapes_end);
  const bool padding = rest.size() < 4 && std::all_of(rest.begin(), rest.end(), [](std::byte byte) {
                         return byte == std::byte{0};
                       });
  if (cursor_.word != cursor_.words_end || !padding) throw_corrupt_stripe();
}

}  // namespace gbcompress::codec::lanes
