#pragma once
/// Parts of requantized tensors, for reader and writer.

#include <algorithm>
#include <vector>

#include "artifact/sections/elements.h"
#include "artifact/sections/requantized.h"
#include "format/gguf/make_blocks.h"
#ifndef GBC_FREESTANDING  // libgbz has one thread
#include "base/parallel.h"
#endif

namespace gbcompress {

/// Blocks whose weights are numbers at once.
inline constexpr std::size_t kBlocksAtOnce = 256;

/// Calls make(values, blocks) for parts of the blocks.
template <typename Make>
void for_base_values(const gguf::BlockLayout& layout, const BaseValues& base,
                     std::span<std::byte> blocks, [[maybe_unused]] int threads, const Make& make) {
  const std::size_t part = kBlocksAtOnce * layout.bytes;
  const auto parts = static_cast<std::int64_t>((blocks.size() + part - 1) / part);
  const auto element = static_cast<std::size_t>(dtype_bits(base.dtype)) / 8;
  const auto weights = static_cast<std::size_t>(layout.weights());
  const auto one = [&](std::int64_t i) {
    const std::size_t at = static_cast<std::size_t>(i) * part;
    const auto some = blocks.subspan(at, std::min(part, blocks.size() - at));
    const std::size_t count = some.size() / layout.bytes * weights;
    std::vector<float> values(count);
    floats_of(base.bytes.subspan(at / layout.bytes * weights * element, count * element),
              base.dtype, values);
    make(std::span<const float>(values), some);
  };
#ifdef GBC_FREESTANDING
  for (std::int64_t i = 0; i < parts; ++i) one(i);
#else
  parallel_tasks(threads, parts, one);
#endif
}

inline void make_reference(const gguf::BlockLayout& layout, gguf::Rounding rounding,
                           const BaseValues& base, std::span<std::byte> blocks, int threads) {
  for_base_values(layout, base, blocks, threads,
                  [&](std::span<const float> values, std::span<std::byte> some) {
                    gguf::reference_blocks(layout, rounding, values, some);
                  });
}

inline void make_quants(const gguf::BlockLayout& layout, const BaseValues& base,
                        std::span<std::byte> blocks, int threads) {
  for_base_values(layout, base, blocks, threads,
                  [&](std::span<const float> values, std::span<std::byte> some) {
                    gguf::set_nearest_quants(layout, values, some);
                  });
}

}  // namespace gbcompress
