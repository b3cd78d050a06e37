#pragma once
/// What is launched for a bank's tiles: pieces, in waves that keep the memory of partial gradients
/// bounded. Depends on shapes and tiles alone, never on the device, so sums have the same shape
/// everywhere.

#include <span>
#include <vector>

#include "cuda/arguments.h"
#include "gnet/tile_kernel.h"

namespace gbcompress::cuda {

/// Bounds of memory on the device, in floats.
struct Budget {
  std::int64_t partial = std::int64_t{1} << 24;    ///< partial gradients of pieces
  std::int64_t workspace = std::int64_t{1} << 24;  ///< activations that exceed shared memory
  std::int64_t staging = std::int64_t{1} << 24;    ///< weights that come from or go to the host
};

/// Pieces that are launched together.
struct Wave {
  std::int64_t first_piece = 0, pieces = 0;
  std::int64_t first_sum = 0, sums = 0;
};

struct Launches {
  std::vector<Piece> pieces;
  std::vector<Sum> sums;
  std::vector<Wave> waves;
  std::int32_t slots = 0;  ///< rows of `partial` that the largest wave needs
  std::int32_t max_outer = 0, max_inner = 0;
};

/// Cuts tiles into pieces. Empty tiles have none.
/// @throws Error(kLimit) for more than 2^31 - 1 tiles
Launches cut_pieces(const BankShape& shape, std::span<const TileTarget> tiles,
                    const Budget& budget);
Launches cut_pieces(const BankShape& shape, std::span<const TileSource> tiles,
                    const Budget& budget);

/// The part of the arguments that depends on the shape; pointers are left null.
/// @throws Error(kUnsupported) for generators other than plain g-nets, for trained codes, and for
///         more than 8 hidden layers; Error(kLimit) for more than 2^31 - 1
///         positions of a tile's side or 2^24 parameters of a g-net
Arguments shape_arguments(const BankShape& shape);

/// A code table as `Table::values` wants it.
std::vector<float> packed_codes(const CodeTable& table);

/// Hidden units of one block of the backward pass: 8, 16 or 32, whichever leaves the fewest idle.
std::int32_t backward_units(std::int64_t hidden);

/// The grid of an operation on `count` pieces, or sums.
/// @throws Error(kLimit) where one block of a deep g-net needs more memory than the budget
Grid make_grid(Operation operation, const Arguments& args, const Launches& launches,
               std::int64_t count, const Budget& budget);

}  // namespace gbcompress::cuda
