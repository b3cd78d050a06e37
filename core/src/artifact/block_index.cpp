#include "artifact/block_index.h"

#include <algorithm>
#include <bit>

#include "artifact/block_source.h"
#include "artifact/sections/packing.h"
#include "base/checked.h"
#include "codec/delta/elements.h"
#include "format/gguf/block_fields.h"
#include "gbcompress/codec.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kSignatureBits = 512, kSignaturePlaces = 16;
/// Signatures of related blocks differ in at most so many bits; of unrelated ones in about half.
constexpr int kRelated = 64;
/// Signs say something where at least so many of them are the rarer ones.
constexpr int kRarer = 64;
constexpr std::int64_t kMostSlices = 4096;
/// Bytes of a block that estimates are made from.
constexpr std::int64_t kSampleBytes = std::int64_t{1} << 16;

std::int64_t width_of(const TensorBlock& block) { return dtype_bits(block.tensor->dtype) / 8; }

/// Elements that stay together.
std::int64_t run_of(const TensorBlock& block) {
  const gguf::BlockLayout* const layout = gguf::find_block_layout(block.tensor->block_type);
  return layout && block.elements % layout->bytes == 0 ? layout->bytes : 1;
}

/// A part from the middle.
TensorBlock middle_of(const TensorBlock& block) {
  const std::int64_t run = run_of(block);
  const std::int64_t elements = std::min(
      block.elements, std::max<std::int64_t>(1, kSampleBytes / width_of(block) / run) * run);
  return {block.tensor, block.first + (block.elements - elements) / 2 / run * run, elements};
}

double weight_of(const TensorBlock& block, const TensorBlock& sample) {
  return static_cast<double>(block.elements) / static_cast<double>(sample.elements);
}

using SizeKey = std::pair<DType, std::int64_t>;

}  // namespace

std::span<const std::byte> TensorBlock::bytes() const {
  const auto width = static_cast<std::size_t>(dtype_bits(tensor->dtype) / 8);
  return tensor->bytes.subspan(static_cast<std::size_t>(first) * width,
                               static_cast<std::size_t>(elements) * width);
}

std::vector<TensorBlock> blocks_of(const TensorEntry& tensor) {
  if (dtype_bits(tensor.dtype) % 8 != 0 || tensor.bytes.empty()) return {};
  const std::int64_t all = tensor_elements(tensor.shape);
  const bool sliced = tensor.shape.size() > 2 && tensor.shape[0] <= kMostSlices &&
                      all / tensor.shape[0] >= kSignatureBits;
  const std::int64_t size = sliced ? all / tensor.shape[0] : all;
  std::vector<TensorBlock> blocks;
  for (std::int64_t first = 0; first < all; first += size) blocks.push_back({&tensor, first, size});
  return blocks;
}

std::optional<Signature> signature_of(const TensorBlock& block) {
  if (block.elements < kSignatureBits) return {};
  constexpr std::int64_t kRun = kSignatureBits / kSignaturePlaces;
  const auto bytes = block.bytes();
  const auto width = static_cast<std::size_t>(width_of(block));
  const auto form = codec::delta::form_of(block.tensor->dtype);
  const bool floats = form && form->mantissa_bits > 0;
  Signature signature{};
  for (std::int64_t i = 0; i < kSignatureBits; ++i) {
    const std::int64_t place = i / kRun;
    const std::int64_t at = (block.elements - kRun) * place / (kSignaturePlaces - 1) + i % kRun;
    const auto first = static_cast<std::size_t>(at) * width;
    const unsigned bit = floats ? static_cast<unsigned>(bytes[first + width - 1]) >> 7
                                : static_cast<unsigned>(bytes[first]) & 1;
    signature[static_cast<std::size_t>(i / 64)] |= std::uint64_t{bit} << (i % 64);
  }
  return signature;
}

int distance(const Signature& a, const Signature& b) noexcept {
  int bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) bits += std::popcount(a[i] ^ b[i]);
  return bits;
}

bool may_be_related(const Signature& a, const Signature& b) noexcept {
  const int apart = distance(a, b), ones = distance(a, {});
  if (apart == 0) return true;
  const bool balanced = ones >= kRarer && ones <= kSignatureBits - kRarer;
  return balanced && apart <= kRelated;
}

double whole_bytes(const TensorBlock& block) {
  const TensorBlock sample = middle_of(block);
  const DType dtype = block.tensor->dtype;
  return weight_of(block, sample) *
         static_cast<double>(estimate_packed(sample.bytes(), width_of(block), is_real(dtype),
                                             block.tensor->block_type));
}

double change_bytes(const TensorBlock& now, const TensorBlock& before) {
  const TensorBlock sample = middle_of(now);
  const TensorBlock was{before.tensor, before.first + sample.first - now.first, sample.elements};
  if (std::ranges::equal(sample.bytes(), was.bytes())) return 0;
  if (!has_change(now.tensor->dtype)) return static_cast<double>(now.bytes().size());
  const auto change =
      encode_change(now.tensor->dtype, std::span(&sample.elements, 1), was.bytes(), sample.bytes());
  return weight_of(now, sample) * static_cast<double>(change.size());
}

double made_bytes(const TensorEntry& tensor, const BaseModel& base, const BlockSource& source) {
  const TensorBlock all{&tensor, 0, tensor_elements(tensor.shape)}, sample = middle_of(all);
  const std::int64_t bytes = gguf::find_block_layout(tensor.block_type)->bytes;
  const auto values =
      base_values(base, source, tensor, static_cast<std::size_t>(sample.first / bytes),
                  static_cast<std::size_t>(sample.elements / bytes));
  const auto section = pack_requantized(sample.bytes(), tensor.block_type, values, 1);
  if (!section) return static_cast<double>(tensor.bytes.size());
  return weight_of(all, sample) * static_cast<double>(section->size());
}

struct BlockIndex::Kept {
  BaseModel model;
  std::map<SizeKey, std::vector<TensorBlock>> blocks;
  std::mutex mutex;
  std::map<SizeKey, std::vector<Found>> found;  ///< with signatures
};

BlockIndex::BlockIndex(const BaseModel& model) : kept_(new Kept{.model = model}) {
  for (const TensorEntry& tensor : kept_->model.tensors().tensors)
    for (const TensorBlock& block : blocks_of(tensor))
      if (block.elements >= kSignatureBits)
        kept_->blocks[{tensor.dtype, block.elements}].push_back(block);
}

std::span<const BlockIndex::Found> BlockIndex::of_size(DType dtype, std::int64_t elements) const {
  const SizeKey key{dtype, elements};
  const auto there = kept_->blocks.find(key);
  if (there == kept_->blocks.end()) return {};
  const std::lock_guard lock(kept_->mutex);
  const auto [at, added] = kept_->found.try_emplace(key);
  if (added)
    for (const TensorBlock& block : there->second)
      at->second.push_back({block, *signature_of(block)});
  return at->second;
}

}  // namespace gbcompress
