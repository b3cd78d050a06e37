#include "bottleneck/exchange.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cstring>

namespace gbcompress {
namespace {

constexpr std::int64_t kBucketFloats = std::int64_t{1} << 21;  // 8 MiB

std::int64_t floats_of(const BankShape& shape, std::int64_t rows, std::int64_t cols) {
  return rows * cols * shape.kernel;
}

/// The same tile without gaps.
template <typename Pointer, typename Tile>
TileMemory<Pointer> packed(const BankShape& shape, const Tile& tile, Pointer data, float scale) {
  return {data, tile.cols * shape.kernel, shape.kernel, tile.rows, tile.cols, scale, tile.noise};
}

/// visit(numbers in the tensor, numbers when packed, how many) for each run of neighbors.
template <typename Tile, typename Pointer, typename Visit>
void for_runs(const BankShape& shape, const Tile& tile, Pointer dense, const Visit& visit) {
  const bool whole_rows = tile.col_stride == shape.kernel;
  const std::int64_t run = whole_rows ? tile.cols * shape.kernel : shape.kernel;
  for (std::int64_t i = 0; i < tile.rows; ++i)
    for (std::int64_t j = 0; j < (whole_rows ? 1 : tile.cols); ++j, dense += run)
      visit(tile.data + i * tile.row_stride + j * tile.col_stride, dense,
            static_cast<std::size_t>(run) * sizeof(float));
}

}  // namespace

OwnedTiles::OwnedTiles(Group& group, const BankShape& shape, std::vector<std::int64_t> rows)
    : group_(group), shape_(shape), rows_(std::move(rows)) {}

std::vector<int> OwnedTiles::owners(std::int64_t first, std::int64_t count) const {
  std::vector<int> result;
  for (std::size_t r = 0; r + 1 < rows_.size(); ++r)
    if (rows_[r] < first + count && rows_[r + 1] > std::max(first, rows_[r]))
      result.push_back(static_cast<int>(r));
  return result;
}

void OwnedTiles::gather(at::Tensor numbers) const {
  std::vector<std::int64_t> pieces;
  for (std::size_t r = 0; r + 1 < rows_.size(); ++r)
    pieces.push_back((rows_[r + 1] - rows_[r]) * shape_.parameters());
  group_.all_gather(numbers.view(-1), pieces).wait();
}

template <typename Tile>
std::vector<OwnedTiles::Bucket> OwnedTiles::buckets(std::span<const Tile> tiles) const {
  std::int64_t floats = 0;
  for (const Tile& tile : tiles) floats += floats_of(shape_, tile.rows, tile.cols);
  const std::int64_t count =
      std::max<std::int64_t>(1, (floats + kBucketFloats - 1) / kBucketFloats);
  std::vector<Bucket> result(static_cast<std::size_t>(count));
  for (std::int64_t b = 0; b < count; ++b) {
    Bucket& bucket = result[static_cast<std::size_t>(b)];
    for (std::size_t r = 0; r + 1 < rows_.size(); ++r) {
      const std::int64_t of_rank = rows_[r + 1] - rows_[r];
      const std::int64_t first = rows_[r] + of_rank * b / count;
      const std::int64_t last = rows_[r] + of_rank * (b + 1) / count;
      if (static_cast<int>(r) == group_.rank()) bucket.own = bucket.floats;
      std::int64_t piece = 0;
      for (std::int64_t t = first; t < last; ++t) {
        const Tile& tile = tiles[static_cast<std::size_t>(t)];
        piece += floats_of(shape_, tile.rows, tile.cols);
      }
      bucket.tiles.push_back({first, last});
      bucket.pieces.push_back(piece);
      bucket.floats += piece;
    }
  }
  return result;
}

void OwnedTiles::forward(const TileKernel& kernel, std::span<const float> theta,
                         std::span<const TileTarget> tiles) const {
  const std::vector<Bucket> all = buckets(tiles);
  const auto parameters = static_cast<std::size_t>(shape_.parameters());
  at::Tensor buffers[2];
  Pending travelling;
  const auto unpack = [&](std::size_t b) {
    travelling.wait();
    const float* dense = buffers[b % 2].data_ptr<float>();
    for (const auto& [first, last] : all[b].tiles)
      for (std::int64_t t = first; t < last; ++t) {
        const TileTarget& tile = tiles[static_cast<std::size_t>(t)];
        for_runs(shape_, tile, dense, [](float* to, const float* from, std::size_t bytes) {
          std::memcpy(to, from, bytes);
        });
        dense += floats_of(shape_, tile.rows, tile.cols);
      }
  };
  for (std::size_t b = 0; b < all.size(); ++b) {
    buffers[b % 2] = at::empty({all[b].floats}, at::kFloat);
    const auto [first, last] = all[b].tiles[static_cast<std::size_t>(group_.rank())];
    std::vector<TileTarget> own;
    float* dense = buffers[b % 2].data_ptr<float>() + all[b].own;
    for (std::int64_t t = first; t < last; ++t) {
      const TileTarget& tile = tiles[static_cast<std::size_t>(t)];
      own.push_back(packed(shape_, tile, dense, tile.scale));
      dense += floats_of(shape_, tile.rows, tile.cols);
    }
    kernel.forward(
        shape_,
        theta.subspan(static_cast<std::size_t>(first) * parameters, own.size() * parameters), own);
    Pending next = group_.all_gather(buffers[b % 2], all[b].pieces);
    if (b > 0) unpack(b - 1);
    travelling = std::move(next);
  }
  unpack(all.size() - 1);
}

void OwnedTiles::backward(const TileKernel& kernel, std::span<const float> theta,
                          std::span<const TileSource> tiles, std::span<float> grad) const {
  const std::vector<Bucket> all = buckets(tiles);
  const auto parameters = static_cast<std::size_t>(shape_.parameters());
  const float average = 1.0f / static_cast<float>(group_.world());
  at::Tensor buffers[2], sums[2];
  Pending travelling;
  const auto push_back = [&](std::size_t b) {
    travelling.wait();
    const auto [first, last] = all[b].tiles[static_cast<std::size_t>(group_.rank())];
    std::vector<TileSource> own;
    const float* dense = sums[b % 2].data_ptr<float>();
    for (std::int64_t t = first; t < last; ++t) {
      const TileSource& tile = tiles[static_cast<std::size_t>(t)];
      own.push_back(packed(shape_, tile, dense, tile.scale * average));
      dense += floats_of(shape_, tile.rows, tile.cols);
    }
    const auto at = static_cast<std::size_t>(first) * parameters, n = own.size() * parameters;
    kernel.backward(shape_, theta.subspan(at, n), own, grad.subspan(at, n));
  };
  for (std::size_t b = 0; b < all.size(); ++b) {
    buffers[b % 2] = at::empty({all[b].floats}, at::kFloat);
    sums[b % 2] = at::empty({all[b].pieces[static_cast<std::size_t>(group_.rank())]}, at::kFloat);
    float* dense = buffers[b % 2].data_ptr<float>();
    for (const auto& [first, last] : all[b].tiles)
      for (std::int64_t t = first; t < last; ++t) {
        const TileSource& tile = tiles[static_cast<std::size_t>(t)];
        for_runs(shape_, tile, dense, [](const float* from, float* to, std::size_t bytes) {
          std::memcpy(to, from, bytes);
        });
        dense += floats_of(shape_, tile.rows, tile.cols);
      }
    Pending next = group_.reduce_scatter(buffers[b % 2], all[b].pieces, sums[b % 2]);
    if (b > 0) push_back(b - 1);
    travelling = std::move(next);
  }
  push_back(all.size() - 1);
}

}  // namespace gbcompress
