#include "ranks/collectives/average.h"

#include <ATen/ATen.h>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kChunkFloats = std::int64_t{1} << 21;  // 8 MiB

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> Average::chunks(
    std::span<const std::int64_t> sizes) {
  std::vector<std::pair<std::size_t, std::size_t>> result;
  for (std::size_t first = 0; first < sizes.size();) {
    std::size_t last = first;
    std::int64_t floats = 0;
    while (last < sizes.size() && (last == first || floats < kChunkFloats)) floats += sizes[last++];
    result.push_back({first, last});
    first = last;
  }
  return result;
}

Average::Average(Group& group, std::vector<at::Tensor> tensors) : tensors_(std::move(tensors)) {
  std::vector<std::int64_t> sizes;
  for (const at::Tensor& tensor : tensors_) sizes.push_back(tensor.numel());
  for (const auto& [first, last] : chunks(sizes)) {
    std::vector<at::Tensor> parts;
    for (std::size_t t = first; t < last; ++t)
      parts.push_back(tensors_[t].detach().reshape({-1}).to(at::kFloat));
    Chunk chunk{first, last, at::cat(parts), {}};
    chunk.flat.mul_(1.0 / group.world());
    chunk.pending = group.all_reduce(chunk.flat);
    chunks_.push_back(std::move(chunk));
  }
}

void Average::finish() {
  for (Chunk& chunk : chunks_) {
    chunk.pending.wait();
    std::int64_t at = 0;
    for (std::size_t t = chunk.first; t < chunk.last; at += tensors_[t++].numel())
      tensors_[t].detach().copy_(
          chunk.flat.narrow(0, at, tensors_[t].numel()).view(tensors_[t].sizes()));
  }
}

void average(Group& group, std::vector<at::Tensor> tensors) {
  for (const at::Tensor& tensor : tensors)
    if (!tensor.defined() || !tensor.is_floating_point() ||
        tensor.device() != tensors.front().device())
      throw Error(Errc::kUsage,
                  "only floating-point tensors on one device can be averaged; gradients exist "
                  "after backward()");
  if (group.world() == 1) return;
  Average(group, std::move(tensors)).finish();
}

}  // namespace gbcompress
