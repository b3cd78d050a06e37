#pragma once
/// Blocks of elements of a model's tensors, found again by a few bits of each. A block is a tensor
/// or, of at least three dimensions, the elements of one index of the first one.

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "gbcompress/base_model.h"

namespace gbcompress {

/// Of 512 elements in 16 places the sign; of integers the lowest bit. Fine-tunes of a block have
/// almost the same ones, other blocks half of them.
using Signature = std::array<std::uint64_t, 8>;

struct TensorBlock {
  const TensorEntry* tensor = nullptr;
  std::int64_t first = 0, elements = 0;  ///< of the tensor

  std::span<const std::byte> bytes() const;
};

/// In order. Types below a byte have none.
std::vector<TensorBlock> blocks_of(const TensorEntry& tensor);
/// Nothing for a block of fewer elements than it has bits.
std::optional<Signature> signature_of(const TensorBlock& block);
int distance(const Signature& a, const Signature& b) noexcept;
/// Whether blocks of these signatures may be equal, or one the change since the other.
bool may_be_related(const Signature& a, const Signature& b) noexcept;

/// Bytes that a change takes, or a block by itself, from a sample of its middle.
double change_bytes(const TensorBlock& now, const TensorBlock& before);
double whole_bytes(const TensorBlock& block);
/// The same of a tensor whose blocks are made of one of a base.
double made_bytes(const TensorEntry& tensor, const BaseModel& base, const BlockSource& source);

/// The blocks of a model. What is searched is looked at when it is needed. Copies share it.
class BlockIndex {
 public:
  /// @param model  a copy is kept
  explicit BlockIndex(const BaseModel& model);
  struct Found {
    TensorBlock block;
    Signature signature;
  };
  /// Of that type and number of elements. [thread-safe]
  std::span<const Found> of_size(DType dtype, std::int64_t elements) const;

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;
};

}  // namespace gbcompress
