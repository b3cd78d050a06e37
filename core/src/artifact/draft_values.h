#pragma once
/// The draft of a file with layers (docs/reference/layers.md), whose values the exact ones are told
/// by.

#include <cstddef>
#include <mutex>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"

namespace gbcompress {

class DraftValues {
 public:
  /// @param rest  tensors of the exact part. @throws Error(kCorrupt) for one whose base is no
  ///              tensor of the draft
  DraftValues(ArtifactReader draft, const std::vector<ArtifactTensor>& rest,
              const std::string& label);

  const ArtifactReader& reader() const noexcept { return reader_; }
  /// Whether the draft has a tensor of the name, type and shape of that one of the exact part.
  bool has(std::size_t tensor) const noexcept { return places_[tensor] < reader_.tensors().size(); }
  /// Its place in the draft.
  std::size_t place(std::size_t tensor) const noexcept { return places_[tensor]; }
  /// [thread-safe] @throws as decode_elements()
  DecodedTensor decode(std::size_t tensor, int threads) const;

 private:
  const ArtifactReader reader_;
  std::vector<std::size_t> places_;  ///< of each tensor of the exact part
  const bool apart_;                 ///< whether several threads decode it
  mutable std::mutex mutex_;
};

}  // namespace gbcompress
