#include "channels_last.h"

#include <ATen/ATen.h>

namespace gbcompress {

at::Tensor channels_last(const at::Tensor& maps) {
  if (maps.dim() != 4) return maps;
  if (maps.size(1) > 1) return maps.contiguous(at::MemoryFormat::ChannelsLast);
  // With one channel both layouts are the same bytes, and LibTorch goes by the strides.
  const auto height = maps.size(2), width = maps.size(3);
  return maps.contiguous().as_strided(maps.sizes(), {height * width, 1, width, 1});
}

}  // namespace gbcompress
