#include "gnet/tile_kernel.h"

#include <string>

#include "base/checked.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

[[noreturn]] void mismatch(const std::string& sentence) {
  throw Error(Errc::kShapeMismatch, sentence);
}

void check_table(const CodeTable& table, std::int64_t count, const char* axis) {
  const std::int64_t values = table.trained ? 0 : checked_mul(table.count, table.width, axis);
  if (count < 1 || table.count != count || table.width < 0 ||
      values != static_cast<std::int64_t>(table.values.size()))
    mismatch("the " + std::string(axis) + " codes of a bank do not fit its tiles");
}

void check_shape(const BankShape& shape) {
  if (shape.blocks.empty()) mismatch("a bank has no parameters");
  if (is_product(shape.generator)) {
    if (shape.rank < 1) mismatch("a product of matrices needs a rank of at least 1");
    return;
  }
  check_table(shape.codes.rows, shape.tile_rows, "row");
  check_table(shape.codes.cols, shape.tile_cols, "column");
  check_table(shape.codes.kernel, shape.kernel, "kernel");
  if (shape.hidden.empty()) mismatch("a g-net needs at least one hidden layer");
  for (std::int64_t width : shape.hidden)
    if (width < 1) mismatch("a hidden layer needs at least one unit");
}

void check_numbers(std::span<const float> numbers, std::size_t tiles, const BankShape& shape,
                   const char* what) {
  const std::int64_t expected =
      checked_mul(static_cast<std::int64_t>(tiles), shape.parameters(), what);
  if (static_cast<std::int64_t>(numbers.size()) != expected)
    mismatch(std::string(what) + " holds " + std::to_string(numbers.size()) + " numbers, " +
             std::to_string(tiles) + " g-nets have " + std::to_string(expected));
  if (reinterpret_cast<std::uintptr_t>(numbers.data()) % alignof(float) != 0)
    mismatch(std::string(what) + " is not aligned as float32 must be");
}

template <typename Tile>
void check_tiles(std::span<const Tile> tiles, const BankShape& shape) {
  for (const Tile& tile : tiles) {
    if (tile.rows < 0 || tile.rows > shape.tile_rows || tile.cols < 0 ||
        tile.cols > shape.tile_cols)
      mismatch("a tile of " + std::to_string(tile.rows) + " x " + std::to_string(tile.cols) +
               " is larger than its bank's " + std::to_string(shape.tile_rows) + " x " +
               std::to_string(shape.tile_cols));
    if (tile.rows > 0 && tile.cols > 0 &&
        (!tile.data || reinterpret_cast<std::uintptr_t>(tile.data) % alignof(float) != 0))
      mismatch("a tile has no memory that is aligned as float32 must be");
  }
}

}  // namespace

TileKernel::~TileKernel() = default;

void TileKernel::forward(const BankShape& shape, std::span<const float> theta,
                         std::span<const TileTarget> tiles) const {
  check_shape(shape);
  check_numbers(theta, tiles.size(), shape, "theta");
  check_tiles(tiles, shape);
  forward_impl(shape, theta, tiles);
}

void TileKernel::backward(const BankShape& shape, std::span<const float> theta,
                          std::span<const TileSource> tiles, std::span<float> grad) const {
  check_shape(shape);
  check_numbers(theta, tiles.size(), shape, "theta");
  check_numbers(grad, tiles.size(), shape, "grad");
  check_tiles(tiles, shape);
  backward_impl(shape, theta, tiles, grad);
}

}  // namespace gbcompress
