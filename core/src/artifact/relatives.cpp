#include "artifact/relatives.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>

#include "artifact/block_source.h"
#include "base/checked.h"

namespace gbcompress {
namespace {

/// A change of more than this share of a packed tensor is no use; one of less than that share of
/// its elements is one without packing it, which takes longer.
constexpr double kMostOfWhole = 0.9, kFewOfElements = 0.4;
/// Related blocks that estimates are made of.
constexpr std::size_t kCandidates = 4;
/// Rows of fewer bytes are not compared one by one; so many equal ones are no accident.
constexpr std::int64_t kLeastRow = 64, kEqualRows = 4;

using Source = TensorPiece::Source;

struct Related {
  Source source = Source::kNone;
  std::size_t base = 0;
  TensorBlock block = {};
  int apart = 0;
};

bool has_form(const TensorEntry* entry, const TensorEntry& tensor) {
  return entry && entry->dtype == tensor.dtype && entry->shape == tensor.shape;
}

/// The same type, and rows of the same shape.
bool has_rows(const TensorEntry* entry, const TensorEntry& tensor) {
  return entry && entry->dtype == tensor.dtype && entry->shape.size() == tensor.shape.size() &&
         !tensor.shape.empty() && !entry->bytes.empty() && !tensor.bytes.empty() &&
         std::equal(entry->shape.begin() + 1, entry->shape.end(), tensor.shape.begin() + 1);
}

/// Adds a piece to those before it, of which it may be the rest.
void append_piece(std::vector<TensorPiece>& pieces, TensorPiece piece) {
  if (piece.elements == 0) return;
  if (!pieces.empty()) {
    TensorPiece& last = pieces.back();
    const bool follows = piece.source == Source::kNone ||
                         (piece.source == Source::kBase && piece.base == last.base &&
                          piece.name == last.name && piece.first == last.first + last.elements);
    if (piece.source == last.source && piece.changed == last.changed && follows) {
      last.elements += piece.elements;
      return;
    }
  }
  pieces.push_back(std::move(piece));
}

bool any_source(const std::vector<TensorPiece>& pieces) {
  return std::ranges::any_of(
      pieces, [](const TensorPiece& piece) { return piece.source != Source::kNone; });
}

/// Rows of a tensor among those of another height: which ranges of rows lie at which distance.
class Rows {
 public:
  Rows(const TensorEntry& now, const TensorEntry& before, std::size_t base)
      : now_(now),
        before_(before),
        base_(base),
        elements_(tensor_elements(now.shape) / now.shape[0]),
        bytes_(static_cast<std::size_t>(elements_ * dtype_bits(now.dtype) / 8)) {}

  std::vector<TensorPiece> pieces() {
    if (static_cast<std::int64_t>(bytes_) >= kLeastRow)
      for (std::int64_t row = 0; row < before_.shape[0]; ++row)
        places_.emplace(text(before_, row), row);
    const std::int64_t height = now_.shape[0];
    std::int64_t begin = 0, shift = 0;  // the row of the base less that of the tensor
    for (std::int64_t row = 0; row < height; ++row) {
      if (equal(row, shift)) continue;
      const auto other = shift_at(row);
      if (!other || *other == shift) continue;
      add(begin, row, shift);
      begin = row;
      shift = *other;
    }
    add(begin, height, shift);
    return std::move(pieces_);
  }

 private:
  std::string_view text(const TensorEntry& tensor, std::int64_t row) const {
    return {
        reinterpret_cast<const char*>(tensor.bytes.data()) + static_cast<std::size_t>(row) * bytes_,
        bytes_};
  }
  bool equal(std::int64_t row, std::int64_t shift) const {
    const std::int64_t other = row + shift;
    return other >= 0 && other < before_.shape[0] && text(now_, row) == text(before_, other);
  }
  /// Where some equal rows begin.
  std::optional<std::int64_t> shift_at(std::int64_t row) const {
    const auto found = places_.find(text(now_, row));
    if (found == places_.end()) return {};
    const std::int64_t shift = found->second - row;
    for (std::int64_t next = row + 1; next < std::min(row + kEqualRows, now_.shape[0]); ++next)
      if (!equal(next, shift)) return {};
    return shift;
  }
  void add(std::int64_t begin, std::int64_t end, std::int64_t shift) {
    const std::int64_t last = std::clamp(before_.shape[0] - shift, begin, end);
    // Behind the last equal row there may be new ones in place of those of the base.
    std::int64_t known = last;
    while (known > begin && !equal(known - 1, shift)) --known;
    add_since(begin, known, shift);
    add_since(known, last, shift);
    append_piece(pieces_, {.elements = (end - last) * elements_});
  }
  void add_since(std::int64_t begin, std::int64_t end, std::int64_t shift) {
    TensorPiece piece{.elements = (end - begin) * elements_,
                      .source = Source::kBase,
                      .base = base_,
                      .first = (begin + shift) * elements_};
    for (std::int64_t row = begin; row < end && !piece.changed; ++row)
      piece.changed = !equal(row, shift);
    append_piece(pieces_, std::move(piece));
  }

  const TensorEntry &now_, &before_;
  const std::size_t base_;
  const std::int64_t elements_;  ///< of a row
  const std::size_t bytes_;
  std::unordered_map<std::string_view, std::int64_t> places_;  ///< of rows of the base
  std::vector<TensorPiece> pieces_;
};

/// Whether a change of so many bytes is smaller than the block would be.
bool is_worth(double bytes, const TensorBlock& block) {
  return bytes < kFewOfElements * static_cast<double>(block.bytes().size()) ||
         bytes < kMostOfWhole * whole_bytes(block);
}

/// The nearest of some related blocks; without a source where none saves something.
TensorPiece nearest(const TensorBlock& block, std::vector<Related> candidates) {
  TensorPiece piece{.elements = block.elements};
  std::ranges::stable_sort(candidates, {}, &Related::apart);
  if (candidates.size() > kCandidates) candidates.resize(kCandidates);
  if (candidates.empty()) return piece;
  const auto take = [&](const Related& from) {
    piece.source = from.source;
    piece.base = from.base;
    piece.first = from.block.first;
    if (from.source == Source::kBase && from.block.tensor->name != block.tensor->name)
      piece.name = from.block.tensor->name;
  };
  for (const Related& each : candidates)
    if (each.apart == 0 && std::ranges::equal(each.block.bytes(), block.bytes())) {
      take(each);
      return piece;
    }
  if (!has_change(block.tensor->dtype)) return piece;
  double least = static_cast<double>(block.bytes().size());
  const Related* best = nullptr;
  for (const Related& each : candidates)
    if (const double bytes = change_bytes(block, each.block); bytes < least) {
      least = bytes;
      best = &each;
    }
  if (!best || !is_worth(least, block)) return piece;
  take(*best);
  piece.changed = true;
  return piece;
}

}  // namespace

TensorFinder::TensorFinder(std::span<const BaseModel> bases, bool namesakes_alone)
    : bases_(bases), namesakes_alone_(namesakes_alone) {
  if (namesakes_alone) return;
  for (const BaseModel& base : bases) blocks_.emplace_back(base);
}

/// @param bytes  set to what the change takes, about
TensorMatch TensorFinder::namesake(const TensorEntry& tensor, double& bytes) const {
  TensorMatch match;
  bytes = std::numeric_limits<double>::infinity();
  const bool estimated = dtype_bits(tensor.dtype) % 8 == 0 && !tensor.bytes.empty();
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const TensorEntry* before = bases_[i].find(tensor.name);
    if (!has_form(before, tensor)) continue;
    const std::int64_t elements = tensor_elements(tensor.shape);
    const double needed =
        estimated ? change_bytes({&tensor, 0, elements}, {before, 0, elements}) : 0;
    if (needed == 0 && std::ranges::equal(before->bytes, tensor.bytes)) return {i, true, {}};
    if (!has_change(tensor.dtype) || tensor.bytes.empty() || needed >= bytes) continue;
    bytes = needed;
    match.namesake = i;
  }
  return match;
}

void TensorFinder::find_original(const TensorEntry& tensor, double bytes,
                                 TensorMatch& match) const {
  if (namesakes_alone_) return;
  std::optional<double> whole;  // of the tensor, which costs more to know
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    std::optional<BlockSource> source = block_source(&bases_[i], tensor);
    if (!source) continue;
    const double made = made_bytes(tensor, bases_[i], *source);
    if (!whole) whole = whole_bytes({&tensor, 0, tensor_elements(tensor.shape)});
    if (made >= std::min(bytes, kMostOfWhole * *whole)) continue;
    bytes = made;
    match.blocks = {i, *std::move(source)};
    match.namesake.reset();
  }
}

std::vector<TensorPiece> TensorFinder::resized(const TensorEntry& tensor) const {
  std::optional<std::size_t> nearest;
  double least = std::numeric_limits<double>::infinity();
  if (dtype_bits(tensor.dtype) % 8 != 0 || !has_change(tensor.dtype)) return {};
  for (std::size_t i = 0; i < bases_.size(); ++i) {
    const TensorEntry* before = bases_[i].find(tensor.name);
    if (!has_rows(before, tensor)) continue;
    const std::int64_t elements =
        std::min(tensor_elements(tensor.shape), tensor_elements(before->shape));
    const double bytes = change_bytes({&tensor, 0, elements}, {before, 0, elements});
    if (bytes >= least) continue;
    least = bytes;
    nearest = i;
  }
  if (!nearest) return {};
  return Rows(tensor, *bases_[*nearest].find(tensor.name), *nearest).pieces();
}

std::vector<TensorPiece> TensorFinder::from_blocks(const TensorEntry& tensor) const {
  std::vector<TensorPiece> pieces;
  std::vector<BlockIndex::Found> before;  // of the tensor itself
  const std::vector<TensorBlock> blocks = blocks_of(tensor);
  if (blocks.size() > kMostPieces) return {};
  for (const TensorBlock& block : blocks) {
    std::vector<Related> candidates;
    std::optional<Signature> signature;
    const auto look_at = [&](std::span<const BlockIndex::Found> found, Source source,
                             std::size_t base) {
      if (!found.empty() && !signature) signature = signature_of(block);
      for (const BlockIndex::Found& each : found)
        if (signature && may_be_related(*signature, each.signature))
          candidates.push_back({source, base, each.block, distance(*signature, each.signature)});
    };
    for (std::size_t i = 0; i < blocks_.size(); ++i)
      look_at(blocks_[i].of_size(tensor.dtype, block.elements), Source::kBase, i);
    look_at(before, Source::kItself, 0);
    append_piece(pieces, nearest(block, std::move(candidates)));
    if (blocks.size() < 2) continue;
    if (!signature) signature = signature_of(block);
    if (signature) before.push_back({block, *signature});
  }
  return any_source(pieces) ? pieces : std::vector<TensorPiece>();
}

TensorMatch TensorFinder::find(const TensorEntry& tensor) const {
  double bytes = 0;
  TensorMatch match = namesake(tensor, bytes);
  if (match.unchanged) return match;
  find_original(tensor, bytes, match);
  if (match.blocks) return match;
  if (match.namesake &&
      (namesakes_alone_ || is_worth(bytes, {&tensor, 0, tensor_elements(tensor.shape)})))
    return match;
  match.pieces = from_blocks(tensor);
  if (match.pieces.empty() && !namesakes_alone_) match.pieces = resized(tensor);
  if (!match.pieces.empty()) match.namesake.reset();
  return match;
}

}  // namespace gbcompress
