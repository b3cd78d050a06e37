#pragma once
/// Tables and classes of all grids, which come before the stripes
/// (docs/reference/lanes.md, "The head").

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "codec/lanes/classes.h"
#include "codec/lanes/tables.h"
#include "codec/small/binary_coder.h"

namespace gbcompress::codec::lanes {

inline constexpr std::uint32_t kMostSets = 16;

/// What is said of one grid.
struct GridHead {
  std::uint32_t set = 0;
  Classes classes;
};

/// Writes what HeadReader reads: sets first, then grids in order.
class HeadWriter {
 public:
  explicit HeadWriter(std::span<const TableSet> sets);
  ~HeadWriter();
  void add(const Shape& shape, bool dependent, const GridHead& grid);
  std::vector<std::byte> finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

class HeadReader {
 public:
  /// @throws Error(kCorrupt, kTruncated), as all here
  explicit HeadReader(std::span<const std::byte> bytes);
  ~HeadReader();
  const std::vector<TableSet>& sets() const;
  GridHead read(const Shape& shape, bool dependent);
  /// @throws unless all bytes were read
  void finish() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gbcompress::codec::lanes
