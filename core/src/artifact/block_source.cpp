#include "artifact/block_source.h"

#include <algorithm>

#include "artifact/header/header.h"
#include "format/gguf/block_fields.h"

namespace gbcompress {

std::optional<BlockSource> block_source(const BaseModel* base, const TensorEntry& tensor) {
  const gguf::BlockLayout* const layout = gguf::find_block_layout(tensor.block_type);
  if (!base || !layout || !layout->even || tensor.shape.empty()) return {};
  const TensorEntry* before = base->find(tensor.whole.empty() ? tensor.name : tensor.whole);
  if (!before || std::ranges::find(kSourceTypes, before->dtype) == kSourceTypes.end()) return {};
  ArtifactTensor blocks;
  blocks.dtype = tensor.dtype;
  blocks.shape = tensor.shape;
  blocks.block_type = tensor.block_type;
  BlockSource source{before->name, before->dtype, before->shape, tensor.first};
  if (before->shape.size() != tensor.shape.size() || !is_within(source, block_elements(blocks)))
    return {};
  if (!tensor.whole.empty()) return source;
  std::vector<std::int64_t> shape = tensor.shape;
  shape.back() = shape.back() / layout->bytes * layout->weights();
  if (shape != before->shape) return {};
  return source;
}

BaseValues base_values(const BaseModel& base, const BlockSource& source, const TensorEntry& tensor,
                       std::size_t first, std::size_t count) {
  const auto weights =
      static_cast<std::size_t>(gguf::find_block_layout(tensor.block_type)->weights());
  const auto element = static_cast<std::size_t>(dtype_bits(source.dtype)) / 8;
  const std::size_t at = static_cast<std::size_t>(source.first) + first * weights;
  return {base.find(source.name)->bytes.subspan(at * element, count * weights * element),
          source.dtype};
}

}  // namespace gbcompress
