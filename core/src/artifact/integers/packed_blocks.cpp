#include "artifact/integers/packed_blocks.h"

#include <cstring>
#include <limits>

#include "gbcompress/codec.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using codec::lanes::Shape;

template <typename T>
constexpr bool holds(std::int32_t largest) {
  return largest <= std::numeric_limits<T>::max();
}

template <typename T>
PackedBlock packed_as(std::span<const std::int32_t> integers) {
  PackedBlock block(1 + integers.size() * sizeof(T));
  block[0] = static_cast<std::byte>(sizeof(T));
  std::byte* to = block.data() + 1;
  for (std::size_t i = 0; i < integers.size(); ++i) {
    const T integer = static_cast<T>(integers[i]);
    std::memcpy(to + i * sizeof(T), &integer, sizeof integer);
  }
  return block;
}

template <typename T>
void unpack_as(const std::byte* from, std::span<std::int32_t> integers) {
  for (std::size_t i = 0; i < integers.size(); ++i) {
    T integer;
    std::memcpy(&integer, from + i * sizeof(T), sizeof integer);
    integers[i] = integer;
  }
}

}  // namespace

PackedBlock pack_block(std::span<const std::int32_t> integers) {
  std::int32_t least = 0, most = 0;
  for (const std::int32_t integer : integers) {
    least = std::min(least, integer);
    most = std::max(most, integer);
  }
  if (least < -kMaxMagnitude || most > kMaxMagnitude)
    throw Error(Errc::kUsage, "a value to code is beyond 2^20; use a larger step size");
  const std::int32_t largest = std::max(most, -least);
  if (holds<std::int8_t>(largest)) return packed_as<std::int8_t>(integers);
  if (holds<std::int16_t>(largest)) return packed_as<std::int16_t>(integers);
  return packed_as<std::int32_t>(integers);
}

std::vector<PackedBlock> pack_grid(const IntegerGrid& grid,
                                   std::span<const std::int32_t> integers) {
  const Shape shape(grid);
  std::vector<PackedBlock> blocks;
  for (std::int64_t block = 0; block < shape.blocks(); ++block)
    blocks.push_back(pack_block(integers.subspan(static_cast<std::size_t>(shape.first(block)),
                                                 static_cast<std::size_t>(shape.size(block)))));
  return blocks;
}

std::optional<std::vector<PackedBlock>> split_blocks(std::span<const std::byte> bytes,
                                                     std::span<const IntegerGrid> grids) {
  std::vector<PackedBlock> blocks;
  for (const IntegerGrid& grid : grids) {
    const Shape shape(grid);
    for (std::int64_t block = 0; block < shape.blocks(); ++block) {
      if (bytes.empty()) return {};
      const auto width = static_cast<std::size_t>(bytes[0]);
      if (width != 1 && width != 2 && width != 4) return {};
      const std::size_t size = 1 + width * static_cast<std::size_t>(shape.size(block));
      if (bytes.size() < size) return {};
      blocks.emplace_back(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size));
      bytes = bytes.subspan(size);
    }
  }
  if (!bytes.empty()) return {};
  return blocks;
}

std::span<const std::int32_t> PackedGrid::get(std::int64_t block,
                                              std::vector<std::int32_t>& room) const {
  thread_local PackedBlock packed;
  const std::span<const std::byte> bytes = load_(block, packed);
  room.resize(static_cast<std::size_t>(shape_.size(block)));
  switch (static_cast<int>(bytes[0])) {
    case 1:
      unpack_as<std::int8_t>(bytes.data() + 1, room);
      break;
    case 2:
      unpack_as<std::int16_t>(bytes.data() + 1, room);
      break;
    default:
      unpack_as<std::int32_t>(bytes.data() + 1, room);
  }
  return room;
}

}  // namespace gbcompress
