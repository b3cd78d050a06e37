#pragma once
/// Head and stripes of a file of profile `lanes`, made of all tensors' integers.

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/spool.h"
#include "codec/lanes/blocks.h"
#include "gbcompress/artifact.h"

namespace gbcompress {

class LanesSections {
 public:
  /// Calls visit(grid, blocks) for the grids of a tensor in the order of integer_grids().
  using Visit = std::function<void(const IntegerGrid&, const codec::lanes::Blocks&)>;
  using Load = std::function<void(std::size_t tensor, const Visit& visit)>;

  /// @param load    called twice for each tensor that has integers
  /// @param folder   where stripes wait in an unnamed file; empty: in memory
  /// @param threads  change no bit
  LanesSections(const std::vector<ArtifactTensor>& tensors, const Load& load,
                const std::filesystem::path& folder, int threads);

  std::int64_t head_bytes() const { return static_cast<std::int64_t>(head_.size()); }
  const std::vector<std::int64_t>& stripes() const { return sizes_; }
  std::int64_t bytes() const { return head_bytes() + stripe_bytes_; }
  void emit(const std::function<void(std::span<const std::byte>)>& sink) const;

 private:
  std::vector<std::byte> head_, held_;
  std::vector<std::int64_t> sizes_;
  std::int64_t stripe_bytes_ = 0;
  std::unique_ptr<Spool> spool_;
};

}  // namespace gbcompress
