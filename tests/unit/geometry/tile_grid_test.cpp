#include "gbcompress/gnet.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "base/random.h"
#include "gbcompress/error.h"
#include "support/assemble.h"

namespace gbcompress {
namespace {

struct Case {
  std::vector<std::int64_t> shape;
  MatrixView view;
  std::int64_t tile_rows, tile_cols;
};

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : stream_(seed, "tile grid test") {}
  std::int64_t roll(std::int64_t low, std::int64_t high) {
    return low + stream_.bits(index_++) % (high - low + 1);
  }

 private:
  RandomStream stream_;
  std::uint64_t index_ = 0;
};

Case random_case(std::uint64_t seed) {
  Dice dice(seed);
  Case c;
  const auto kind = dice.roll(0, 3);  // linear or conv, transposed, split, vector
  c.view.row_splits = kind == 2 ? dice.roll(1, 3) : 1;
  c.view.col_splits = kind == 2 ? dice.roll(1, 3) : 1;
  const auto rows = dice.roll(1, 13), cols = kind == 3 ? 1 : dice.roll(1, 13);
  if (kind == 3) {
    c.view.col_dim = -1;
    c.shape = {rows};
  } else if (kind == 1) {
    c.view = {.row_dim = 1, .col_dim = 0};
    c.shape = {cols, rows};
  } else {
    c.shape = {rows * c.view.row_splits, cols * c.view.col_splits};
  }
  const auto kernel_dims = dice.roll(0, 3);
  for (std::int64_t d = 0; d < kernel_dims; ++d) c.shape.push_back(dice.roll(1, 4));
  c.tile_rows = dice.roll(1, rows);
  c.tile_cols = dice.roll(1, cols);
  return c;
}

Errc code_of(const Case& c) {
  try {
    TileGrid(c.shape, c.view, c.tile_rows, c.tile_cols);
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

TEST(TileGrid, CoversEveryElementOnceForRandomShapes) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = random_case(seed);
    const TileGrid grid(c.shape, c.view, c.tile_rows, c.tile_cols);
    std::vector<int> seen(static_cast<std::size_t>(grid.elements()));
    for (std::int64_t t = 0; t < grid.tiles(); ++t) {
      const TileExtent e = grid.extent(t);
      ASSERT_GE(e.rows, 1);
      ASSERT_GE(e.cols, 1);
      for (std::int64_t i = 0; i < e.rows; ++i)
        for (std::int64_t j = 0; j < e.cols; ++j)
          for (std::int64_t k = 0; k < grid.kernel(); ++k)
            ++seen.at(static_cast<std::size_t>(e.offset + i * e.row_stride + j * e.col_stride + k));
    }
    for (int count : seen) ASSERT_EQ(count, 1);
  }
}

TEST(TileGrid, AssembleUndoesDisassemble) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    const Case c = random_case(seed);
    const TileGrid grid(c.shape, c.view, c.tile_rows, c.tile_cols);
    std::vector<float> x(static_cast<std::size_t>(grid.elements())), y(x.size(), -1.0f);
    std::iota(x.begin(), x.end(), 1.0f);
    std::vector<float> tiles(static_cast<std::size_t>(grid.tiles() * grid.positions()), -7.0f);
    disassemble(grid, x.data(), tiles.data());
    assemble(grid, tiles.data(), y.data());
    ASSERT_EQ(x, y);
    // What is cropped is 0, so nothing of the tensor is there twice and nothing is left unset.
    ASSERT_EQ(std::accumulate(tiles.begin(), tiles.end(), 0.0),
              std::accumulate(x.begin(), x.end(), 0.0));
  }
}

TEST(TileGrid, NumbersTilesByMatrixThenRowThenColumn) {
  // Two matrices of 3 x 4 one below the other, tiles of 2 x 3.
  const TileGrid grid({6, 4}, {.row_splits = 2}, 2, 3);
  ASSERT_EQ(grid.tiles(), 8);
  const std::vector<std::int64_t> offsets = {0, 3, 8, 11, 12, 15, 20, 23};
  const std::vector<std::int64_t> rows = {2, 2, 1, 1, 2, 2, 1, 1};
  const std::vector<std::int64_t> cols = {3, 1, 3, 1, 3, 1, 3, 1};
  for (std::int64_t t = 0; t < 8; ++t) {
    EXPECT_EQ(grid.extent(t).offset, offsets[t]);
    EXPECT_EQ(grid.extent(t).rows, rows[t]);
    EXPECT_EQ(grid.extent(t).cols, cols[t]);
  }
}

TEST(TileGrid, SplitsColumnsSideBySide) {
  const TileGrid grid({4, 6}, {.col_splits = 3}, 4, 2);
  ASSERT_EQ(grid.tiles(), 3);
  EXPECT_EQ(grid.extent(0).offset, 0);
  EXPECT_EQ(grid.extent(1).offset, 2);
  EXPECT_EQ(grid.extent(2).offset, 4);
  EXPECT_EQ(grid.extent(2).row_stride, 6);
}

TEST(TileGrid, SeesATransposedConvolution) {
  const TileGrid grid({5, 7, 3, 2}, {.row_dim = 1, .col_dim = 0}, 4, 5);
  EXPECT_EQ(grid.rows(), 7);
  EXPECT_EQ(grid.cols(), 5);
  EXPECT_EQ(grid.kernel(), 6);
  EXPECT_EQ(grid.extent(1).offset, 4 * 6);
  EXPECT_EQ(grid.extent(1).rows, 3);
  EXPECT_EQ(grid.extent(1).row_stride, 6);
  EXPECT_EQ(grid.extent(1).col_stride, 42);
}

TEST(TileGrid, RefusesWhatDoesNotFit) {
  const std::int64_t big = std::int64_t{1} << 31;
  const std::vector<Case> bad = {
      {{}, {}, 1, 1},
      {{4}, {}, 1, 1},                                  // a vector has no column dimension
      {{4, 4}, {}, 5, 1},                               // tile beyond the matrix
      {{4, 4}, {}, 1, 0},                               // no tile
      {{4, 0}, {}, 1, 1},                               // empty tensor
      {{4, -4}, {}, 1, 1},                              // negative side
      {{4, 4}, {.row_dim = 0, .col_dim = 0}, 1, 1},     // one dimension twice
      {{4, 4, 3}, {.row_dim = 0, .col_dim = 2}, 1, 1},  // kernel positions must come last
      {{4, 4}, {.row_dim = 0, .col_dim = 9}, 1, 1},
      {{4, 4}, {.row_dim = -1, .col_dim = 1}, 1, 1},
      {{4, 4}, {.row_splits = 3}, 1, 1},
      {{4, 4}, {.row_splits = 0}, 1, 1},
      {{4, 4}, {.row_splits = 2}, 3, 1},  // tile beyond one of the matrices
      {{4}, {.col_dim = -1, .col_splits = 2}, 1, 1},
      {{big, big}, {}, 1, 1},
      {{big, big, big}, {}, 1, 1},
      {{1, 1, 1, 1, 1, 1, 1, 1, 1}, {}, 1, 1},
  };
  for (std::size_t i = 0; i < bad.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(code_of(bad[i]), Errc::kShapeMismatch);
  }
  const TileGrid grid({4, 4}, {}, 2, 2);
  EXPECT_THROW(grid.extent(4), Error);
  EXPECT_THROW(grid.extent(-1), Error);
}

}  // namespace
}  // namespace gbcompress
