#pragma once
/// Tensors that are ranges of elements one after another (docs/reference/exact-deltas.md,
/// "Pieces").

#include <cstddef>
#include <vector>

#include "artifact/header/cbor_reader.h"
#include "gbcompress/artifact.h"
#include "gbcompress/base_model.h"

namespace gbcompress {

/// The value of the key p. @throws Error(kTruncated, kCorrupt, kUnsupported)
std::vector<TensorPiece> read_pieces(CborReader& in);
/// Gives a tensor its pieces and the size of its section. @throws Error(kCorrupt) where they do not
/// fit it
void set_pieces(const CborReader& in, ArtifactTensor& tensor, std::vector<TensorPiece> pieces);

/// The elements of a tensor of kind kPieces.
/// @param base  for the pieces that have one
std::vector<std::byte> join_pieces(const ArtifactReader& artifact, std::size_t tensor,
                                   const BaseSource& base);

}  // namespace gbcompress
