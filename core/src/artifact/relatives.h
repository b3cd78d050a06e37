#pragma once
/// Where tensors of a model are found again: in models that it may be the exact change since, under
/// the same name or another one, and in themselves.

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "artifact/block_index.h"
#include "base/internal.h"
#include "gbcompress/artifact_tensor.h"
#include "gbcompress/base_model.h"

namespace GBC_INTERNAL gbcompress {

/// How a tensor is made of others; without a base and pieces: in no way.
struct TensorMatch {
  std::optional<std::size_t>
      namesake;            ///< the base whose tensor of that name, type and shape it is
  bool unchanged = false;  ///< the namesake is the tensor, bit for bit
  /// Else the base that has the tensor which its blocks were quantized from, and that one.
  std::optional<std::pair<std::size_t, BlockSource>> blocks;
  /// Else of all elements. Where `changed` is not set, a source is equal.
  std::vector<TensorPiece> pieces;

  bool any() const noexcept { return namesake || blocks || !pieces.empty(); }
};

class TensorFinder {
 public:
  /// @param bases            have to outlive this
  /// @param namesakes_alone  whether no other tensors of the bases are looked at
  explicit TensorFinder(std::span<const BaseModel> bases, bool namesakes_alone = false);
  /// [thread-safe]
  TensorMatch find(const TensorEntry& tensor) const;

 private:
  TensorMatch namesake(const TensorEntry& tensor, double& bytes) const;
  /// @param bytes  what other ways take
  void find_original(const TensorEntry& tensor, double bytes, TensorMatch& match) const;
  std::vector<TensorPiece> resized(const TensorEntry& tensor) const;
  std::vector<TensorPiece> from_blocks(const TensorEntry& tensor) const;

  std::span<const BaseModel> bases_;
  const bool namesakes_alone_;
  std::vector<BlockIndex> blocks_;  ///< of each base; none where it is looked at for namesakes
};

}  // namespace gbcompress
