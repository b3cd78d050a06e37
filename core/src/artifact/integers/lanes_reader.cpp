#include "artifact/integers/lanes_reader.h"

#include <algorithm>

#include "artifact/integers/integers.h"
#include "codec/lanes/escape.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using codec::lanes::GridDecoder;
using codec::lanes::Piece;
using codec::lanes::Shape;
using codec::lanes::StripeCursor;

/// Of lines and columns, which the head has.
double class_count(const IntegerGrid& form) {
  const Shape shape(form);
  return static_cast<double>(shape.lines + shape.width);
}

}  // namespace

LanesReader::LanesReader(const std::vector<ArtifactTensor>& tensors, LanesBytes bytes)
    : bytes_(std::move(bytes)) {
  codec::lanes::Stripes stripes;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    first_grids_.push_back(grids_.size());
    if (!in_stripes(tensors[t])) continue;
    std::int64_t first = 0;
    for (const IntegerGrid& form : integer_grids(tensors[t])) {
      stripes.add(Shape(form));
      grids_.push_back({form, t, first, {}});
      first += form.size();
    }
  }
  first_grids_.push_back(grids_.size());
  pieces_ = stripes.pieces();
  for (std::size_t s = 0; s < pieces_.size(); ++s)
    for (const Piece& piece : pieces_[s])
      grids_[piece.grid].stripes.push_back(static_cast<std::uint32_t>(s));
  if (pieces_.size() != bytes_.stripes.size())
    throw Error(Errc::kCorrupt, "the file has " + std::to_string(bytes_.stripes.size()) +
                                    " stripes where its tensors need " +
                                    std::to_string(pieces_.size()) + "; get the file again");
}

const LanesReader::Heads& LanesReader::heads() const {
  std::call_once(parsed_, [&] {
    codec::lanes::HeadReader reader(bytes_.head);
    std::vector<codec::lanes::GridHead> grids;
    for (const Grid& grid : grids_)
      grids.push_back(reader.read(Shape(grid.form), grid.form.dependent));
    reader.finish();
    heads_.emplace(Heads{std::move(grids), codec::lanes::Entries(reader.sets())});
  });
  return *heads_;
}

template <typename Decode>
void LanesReader::for_stripe(std::size_t stripe, const Decode& decode) const {
  const auto bytes = bytes_.stripes[stripe];
  codec::lanes::StripeReader reader(bytes, static_cast<std::size_t>(bytes_.end - bytes.data()));
  for (const Piece& piece : pieces_[stripe])
    if (!decode(piece, reader.cursor())) codec::lanes::throw_corrupt_stripe();
  reader.finish();
  if (bytes_.digest) bytes_.digest->keep_up(bytes.size());
}

bool LanesReader::is_shared(std::size_t stripe) const {
  return pieces_[stripe].front().grid != pieces_[stripe].back().grid;
}

LanesReader::Units LanesReader::shared_stripe(std::size_t stripe) const {
  std::shared_ptr<Shared> shared;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& recent : recent_)
      if (recent && recent->stripe == stripe) shared = recent;
    if (!shared) {
      shared = std::make_shared<Shared>(stripe);
      recent_[oldest_++ % kKeptStripes] = shared;
    }
  }
  std::call_once(shared->decoded, [&] { shared->units = decode_shared(stripe); });
  return shared->units;
}

LanesReader::Units LanesReader::decode_shared(std::size_t stripe) const {
  std::size_t size = 0;
  for (const Piece& piece : pieces_[stripe])
    size += static_cast<std::size_t>(Shape(grids_[piece.grid].form).size(piece.block));
  const std::shared_ptr<float> units = room_.take(size);
  const Heads& known = heads();
  std::size_t at = 0;
  for_stripe(stripe, [&](const Piece& piece, StripeCursor& cursor) {
    GridDecoder decoder(grids_[piece.grid].form, known.grids[piece.grid], known.entries);
    float* const to = units.get() + at;
    at += static_cast<std::size_t>(decoder.shape().size(piece.block));
    return decoder.decode(piece.block, cursor, to);
  });
  return units;
}

/// The blocks of a grid that lie in stripes with other grids'.
void LanesReader::copy_blocks(std::size_t grid, std::span<std::int32_t> integers) const {
  const Shape shape(grids_[grid].form);
  for (std::size_t block = 0; block < grids_[grid].stripes.size(); ++block) {
    const std::size_t stripe = grids_[grid].stripes[block];
    if (!is_shared(stripe)) continue;
    const auto b = static_cast<std::int64_t>(block);
    const Units all = shared_stripe(stripe);
    const std::span units(all.get() + place_in(stripe, grid, b),
                          static_cast<std::size_t>(shape.size(b)));
    codec::lanes::integers_of(units, grids_[grid].form.dependent, integers.data() + shape.first(b));
  }
}

std::int64_t LanesReader::place_in(std::size_t stripe, std::size_t grid, std::int64_t block) const {
  std::int64_t at = 0;
  for (const Piece& piece : pieces_[stripe]) {
    if (piece.grid == grid && piece.block == block) break;
    at += Shape(grids_[piece.grid].form).size(piece.block);
  }
  return at;
}

void LanesReader::read(std::size_t tensor, std::span<std::int32_t> integers) const {
  const Heads& known = heads();
  for (std::size_t g = first_grids_[tensor]; g < first_grids_[tensor + 1]; ++g) {
    const Grid& grid = grids_[g];
    const auto part = integers.subspan(static_cast<std::size_t>(grid.first),
                                       static_cast<std::size_t>(grid.form.size()));
    copy_blocks(g, part);
    GridDecoder decoder(grid.form, known.grids[g], known.entries);
    for (std::size_t b = 0; b < grid.stripes.size(); ++b) {
      if (is_shared(grid.stripes[b]) || (b > 0 && grid.stripes[b] == grid.stripes[b - 1])) continue;
      for_stripe(grid.stripes[b], [&](const Piece& piece, StripeCursor& cursor) {
        return decoder.decode(piece.block, cursor,
                              part.data() + decoder.shape().first(piece.block));
      });
    }
  }
}

std::vector<LanesPart> LanesReader::parts(std::size_t tensor) const {
  const Grid& grid = grids_[first_grids_[tensor + 1] - 1];
  const Shape shape(grid.form);
  std::vector<LanesPart> parts;
  for (std::int64_t block = 0; block < shape.blocks(); ++block) {
    const std::uint32_t stripe = grid.stripes[static_cast<std::size_t>(block)];
    if (parts.empty() || parts.back().stripe != stripe)
      parts.push_back({stripe, block, 0, shape.first(block), 0});
    ++parts.back().blocks;
    parts.back().size += shape.size(block);
  }
  return parts;
}

std::vector<std::int32_t> LanesReader::offsets(std::size_t tensor) const {
  const std::size_t grid = first_grids_[tensor + 1] - 2;
  std::vector<std::int32_t> integers(static_cast<std::size_t>(grids_[grid].form.size()));
  copy_blocks(grid, integers);
  // Stripes that no other grid has a part in.
  GridDecoder decoder(grids_[grid].form, heads().grids[grid], heads().entries);
  for (const std::uint32_t stripe : grids_[grid].stripes)
    if (!is_shared(stripe))
      for_stripe(stripe, [&](const Piece& piece, StripeCursor& cursor) {
        return decoder.decode(piece.block, cursor,
                              integers.data() + decoder.shape().first(piece.block));
      });
  return integers;
}

#ifndef GBC_FREESTANDING
std::shared_ptr<const std::vector<float>> LanesReader::row_scales(
    std::size_t tensor, const std::function<std::vector<float>()>& make) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto kept = scales_.find(tensor); kept != scales_.end()) return kept->second;
  }
  auto rows = std::make_shared<const std::vector<float>>(make());  // takes the lock itself
  const std::lock_guard lock(mutex_);
  if (kept_scales_ + rows->size() <= kMostScales && scales_.emplace(tensor, rows).second)
    kept_scales_ += rows->size();
  return rows;
}
#endif

template <typename Out>
void LanesReader::read_part(std::size_t tensor, const LanesPart& part, float scale,
                            std::span<const float> rows, Out* out) const {
  const Heads& known = heads();
  const std::size_t g = first_grids_[tensor + 1] - 1;
  const IntegerGrid& form = grids_[g].form;
  if (!is_shared(part.stripe)) {
    GridDecoder decoder(form, known.grids[g], known.entries);
    decoder.set_scale(scale);
    if (!rows.empty()) decoder.set_row_scales(rows.data());
    return for_stripe(part.stripe, [&](const Piece& piece, StripeCursor& cursor) {
      return decoder.decode(piece.block, cursor,
                            out + (decoder.shape().first(piece.block) - part.first));
    });
  }
  const Units all = shared_stripe(part.stripe);
  const float* const units = all.get() + place_in(part.stripe, g, part.first_block);
  for (std::int64_t i = 0; i < part.size;) {
    // To the end of the part, or of the row.
    const std::int64_t at = part.first + i;
    const std::int64_t end =
        rows.empty() ? part.size : std::min(part.size, i + form.cols - at % form.cols);
    const float factor = rows.empty() ? scale : rows[static_cast<std::size_t>(at / form.cols)];
    codec::lanes::scale_units(units + i, end - i, factor, out + i);
    i = end;
  }
}
template void LanesReader::read_part(std::size_t, const LanesPart&, float, std::span<const float>,
                                     float*) const;
#ifndef GBC_FREESTANDING  // libgbz rounds numbers that it has
template void LanesReader::read_part(std::size_t, const LanesPart&, float, std::span<const float>,
                                     codec::lanes::Bfloat16*) const;
template void LanesReader::read_part(std::size_t, const LanesPart&, float, std::span<const float>,
                                     codec::lanes::Float16*) const;
#endif

std::vector<std::span<const std::byte>> LanesReader::bytes_of(std::size_t tensor) const {
  std::vector<std::span<const std::byte>> bytes = {bytes_.head};
  std::size_t next = 0;  // stripes of a tensor ascend
  for (std::size_t g = first_grids_[tensor]; g < first_grids_[tensor + 1]; ++g)
    for (const std::size_t stripe : grids_[g].stripes) {
      if (stripe < next) continue;
      bytes.push_back(bytes_.stripes[stripe]);
      next = stripe + 1;
    }
  return bytes;
}

std::vector<double> LanesReader::tensor_bits() const {
  std::vector<double> bits(first_grids_.size() - 1);
  double classes = 0;
  for (const Grid& grid : grids_) classes += class_count(grid.form);
  for (const Grid& grid : grids_)
    bits[grid.tensor] +=
        8 * static_cast<double>(bytes_.head.size()) * class_count(grid.form) / classes;
  for (std::size_t s = 0; s < pieces_.size(); ++s) {
    double all = 0;
    for (const Piece& piece : pieces_[s])
      all += static_cast<double>(Shape(grids_[piece.grid].form).size(piece.block));
    for (const Piece& piece : pieces_[s])
      bits[grids_[piece.grid].tensor] +=
          8 * static_cast<double>(bytes_.stripes[s].size()) *
          static_cast<double>(Shape(grids_[piece.grid].form).size(piece.block)) / all;
  }
  return bits;
}

}  // namespace gbcompress
