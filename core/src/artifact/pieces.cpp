#include "artifact/pieces.h"

#include <algorithm>

#include "artifact/base_range.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/header/header_keys.h"
#include "artifact/header/tensor_fields.h"
#include "artifact/sections/packing.h"
#include "base/checked.h"
#include "base/fresh_memory.h"

namespace gbcompress {
namespace {

TensorPiece read_piece(CborReader& in) {
  TensorPiece piece;
  Keys keys(in, "ibnaezyf");
  const auto pack = [&](Packing packing) {
    piece.packing = packing;
    piece.stored = read_size(in);
  };
  while (const char key = keys.next()) switch (key) {
      case 'i':
        piece.elements = read_size(in);
        break;
      case 'b':
        piece.base = read_base(in) - 1;
        piece.source = TensorPiece::Source::kBase;
        break;
      case 'n':
        piece.name = in.text();
        break;
      case 'a':
        piece.first = read_size(in);
        break;
      case 'e':
        piece.changed = true;
        piece.stored = read_size(in);
        break;
      default:
        pack(key == 'z' ? Packing::kZstd : key == 'y' ? Packing::kShuffledZstd : Packing::kPlanes);
    }
  if (keys.has('a') && !keys.has('b')) piece.source = TensorPiece::Source::kItself;
  const bool sourced = piece.source != TensorPiece::Source::kNone;
  if (piece.elements < 1) in.corrupt("a piece has no elements");
  if (keys.has('n') && (!keys.has('b') || piece.name.empty()))
    in.corrupt("a piece names a tensor of no base");
  if (sourced ? keys.has_any("zyf") : keys.has('e'))
    in.corrupt("a piece is stored in two ways, or changed since nothing");
  if (keys.has('z') + keys.has('y') + keys.has('f') > 1)
    in.corrupt("a section is packed in two ways");
  return piece;
}

}  // namespace

std::vector<TensorPiece> read_pieces(CborReader& in) {
  const std::int64_t n = in.array();
  if (n < 1 || n > static_cast<std::int64_t>(kMostPieces))
    in.corrupt("a tensor has no pieces, or too many");
  std::vector<TensorPiece> pieces;
  for (std::int64_t i = 0; i < n; ++i) pieces.push_back(read_piece(in));
  return pieces;
}

void set_pieces(const CborReader& in, ArtifactTensor& tensor, std::vector<TensorPiece> pieces) {
  if (dtype_bits(tensor.dtype) % 8 != 0) in.corrupt("a piece has elements of no whole bytes");
  const std::int64_t width = dtype_bits(tensor.dtype) / 8;
  const std::int64_t elements = checked_elements(tensor.shape, "a tensor");
  std::int64_t at = 0;
  for (TensorPiece& piece : pieces) {
    if (piece.elements > elements - at) in.corrupt("pieces have more elements than their tensor");
    if (piece.source == TensorPiece::Source::kItself &&
        (piece.first > at || piece.elements > at - piece.first))
      in.corrupt("a piece is made of elements that do not lie before it");
    if (piece.changed && !has_change(tensor.dtype)) in.corrupt("this element type has no changes");
    if (piece.source == TensorPiece::Source::kNone) {
      SectionEntry section{piece.stored, piece.elements * width, piece.packing};
      check_packing(in, tensor, section);
      piece.stored = section.stored;
    }
    at += piece.elements;
    piece.offset = tensor.stored_bytes;
    tensor.stored_bytes = checked_add(tensor.stored_bytes, piece.stored, "a section");
  }
  if (at != elements) in.corrupt("pieces have fewer elements than their tensor");
  tensor.pieces = std::move(pieces);
}

std::span<const std::byte> ArtifactReader::piece_section(std::size_t tensor,
                                                         std::size_t piece) const {
  const TensorPiece& one = tensors_[tensor].pieces[piece];
  return section(tensor).subspan(static_cast<std::size_t>(one.offset),
                                 static_cast<std::size_t>(one.stored));
}

std::vector<std::byte> ArtifactReader::unpacked_piece(std::size_t tensor, std::size_t piece) const {
  const ArtifactTensor& entry = tensors_[tensor];
  const std::int64_t raw = entry.pieces[piece].elements * dtype_bits(entry.dtype) / 8;
  return unpack(piece_section(tensor, piece), entry.pieces[piece].packing, raw, plane_bytes(entry),
                label_ + ": " + printable(entry.name));
}

void ArtifactReader::make_piece(std::size_t tensor, std::size_t piece,
                                std::span<std::byte> elements) const {
  const ArtifactTensor& stored =
      entry(tensor, tensor < tensors_.size() && piece < tensors_[tensor].pieces.size(), "pieces");
  const TensorPiece& one = stored.pieces[piece];
  if (one.changed) {
    apply_change(stored.dtype, piece_shape(stored.shape, one.elements),
                 piece_section(tensor, piece), elements);
  } else if (one.source == TensorPiece::Source::kNone) {
    const std::vector<std::byte> made = unpacked_piece(tensor, piece);
    std::copy(made.begin(), made.end(), elements.begin());
  }
  digest_->keep_up(static_cast<std::size_t>(one.stored));
}

std::vector<std::byte> join_pieces(const ArtifactReader& artifact, std::size_t tensor,
                                   const BaseSource& base) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const auto width = static_cast<std::size_t>(dtype_bits(entry.dtype) / 8);
  std::vector<std::byte> elements;
  for (const TensorPiece& piece :
       entry.pieces)  // which the bases have to have, before memory is taken
    if (piece.source == TensorPiece::Source::kBase) base(range_of(entry, piece));
  resize_fresh(elements, static_cast<std::size_t>(tensor_bytes(entry.shape, entry.dtype)));
  std::span<std::byte> rest = elements;
  for (std::size_t n = 0; n < entry.pieces.size(); ++n) {
    const TensorPiece& piece = entry.pieces[n];
    const auto out = rest.first(static_cast<std::size_t>(piece.elements) * width);
    std::span<const std::byte> from;
    if (piece.source == TensorPiece::Source::kBase)
      from = base(range_of(entry, piece));
    else if (piece.source == TensorPiece::Source::kItself)
      from = std::span(elements).subspan(static_cast<std::size_t>(piece.first) * width, out.size());
    std::copy(from.begin(), from.end(), out.begin());
    artifact.make_piece(tensor, n, out);
    rest = rest.subspan(out.size());
  }
  return elements;
}

}  // namespace gbcompress
