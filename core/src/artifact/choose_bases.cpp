#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

#include "artifact/block_index.h"
#include "artifact/block_source.h"
#include "base/parallel.h"
#include "gbcompress/base_model.h"

namespace gbcompress {
namespace {

/// Of so many tensors samples are looked at.
constexpr std::size_t kTensors = 48;
/// Of the bytes of a whole file: what a delta has to save, and what each further base and a deeper
/// or later one does.
constexpr double kWorthIt = 0.05, kBetter = 0.01;
/// Of the blocks of a tensor so many are looked at.
constexpr std::size_t kSlices = 8;

/// The largest tensors that have most of the bytes; of many every n-th one.
std::vector<const TensorEntry*> sampled_tensors(const TensorBundle& model) {
  constexpr double kMost = 0.95;
  std::vector<const TensorEntry*> tensors;
  double all = 0;
  for (const TensorEntry& tensor : model.tensors) {
    if (blocks_of(tensor).empty()) continue;
    tensors.push_back(&tensor);
    all += static_cast<double>(tensor.bytes.size());
  }
  std::ranges::stable_sort(tensors, std::ranges::greater(),
                           [](const TensorEntry* each) { return each->bytes.size(); });
  double taken = 0;
  std::size_t count = 0;
  while (count < tensors.size() && taken < kMost * all)
    taken += static_cast<double>(tensors[count++]->bytes.size());
  tensors.resize(count);
  std::vector<const TensorEntry*> some;
  const std::size_t stride = (count + kTensors - 1) / kTensors;
  for (std::size_t i = 0; i < count; i += stride) some.push_back(tensors[i]);
  return some;
}

TensorBlock all_of(const TensorEntry& tensor) {
  return {&tensor, 0, tensor_elements(tensor.shape)};
}

/// What a tensor takes that is found in a model's blocks.
double block_bytes(const TensorEntry& tensor, double whole, const BlockIndex& other) {
  const std::vector<TensorBlock> blocks = blocks_of(tensor);
  const std::size_t stride = (blocks.size() + kSlices - 1) / kSlices;
  double bytes = 0, looked_at = 0;
  for (std::size_t i = 0; i < blocks.size(); i += stride) {
    const double alone = whole / static_cast<double>(blocks.size());
    const auto signature = signature_of(blocks[i]);
    const BlockIndex::Found* nearest = nullptr;
    if (signature)
      for (const auto& found : other.of_size(tensor.dtype, blocks[i].elements))
        if (may_be_related(*signature, found.signature) &&
            (!nearest ||
             distance(*signature, found.signature) < distance(*signature, nearest->signature)))
          nearest = &found;
    bytes += nearest ? std::min(alone, change_bytes(blocks[i], nearest->block)) : alone;
    ++looked_at;
  }
  return bytes * static_cast<double>(blocks.size()) / looked_at;
}

/// Of the change since a tensor of another model; of a whole tensor where that is less.
double delta_bytes(const TensorEntry& tensor, double whole, const BaseModel& other,
                   const BlockIndex& blocks) {
  if (const auto source = block_source(&other, tensor))
    return std::min(whole, made_bytes(tensor, other, *source));
  const TensorEntry* before = other.find(tensor.name);
  if (!before || before->dtype != tensor.dtype) return block_bytes(tensor, whole, blocks);
  if (before->shape == tensor.shape)
    return std::min(whole, change_bytes(all_of(tensor), all_of(*before)));
  const bool rows =
      !tensor.shape.empty() && before->shape.size() == tensor.shape.size() &&
      std::equal(tensor.shape.begin() + 1, tensor.shape.end(), before->shape.begin() + 1);
  if (!rows || before->bytes.empty()) return block_bytes(tensor, whole, blocks);
  const std::int64_t all = tensor_elements(tensor.shape);
  const std::int64_t had = std::min(all, tensor_elements(before->shape));
  const double rest = whole * static_cast<double>(all - had) / static_cast<double>(all);
  return std::min(whole, rest + change_bytes({&tensor, 0, had}, {before, 0, had}));
}

}  // namespace

BaseChoice choose_bases(const TensorBundle& model, std::span<const EarlierModel> others) {
  if (others.empty()) return {};
  const std::vector<const TensorEntry*> tensors = sampled_tensors(model);
  const auto of_each = [&](const std::function<double(std::size_t)>& bytes) {
    std::vector<double> result(tensors.size());
    parallel_tasks(usable_processors(), static_cast<std::int64_t>(result.size()),
                   [&](std::int64_t t) {
                     result[static_cast<std::size_t>(t)] = bytes(static_cast<std::size_t>(t));
                   });
    return result;
  };
  const std::vector<double> whole =
      of_each([&](std::size_t t) { return whole_bytes(all_of(*tensors[t])); });
  std::vector<double> best = whole;
  const double all = std::accumulate(whole.begin(), whole.end(), 0.0);
  std::vector<std::size_t> order(others.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::erase_if(order, [&](std::size_t i) { return others[i].links >= kMostLinks; });
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return others[i].links; });
  std::vector<std::vector<double>> bytes;
  for (const std::size_t i : order) {
    const BlockIndex blocks(others[i].model);
    bytes.push_back(of_each([&](std::size_t t) {
      return delta_bytes(*tensors[t], whole[t], others[i].model, blocks);
    }));
  }
  BaseChoice choice;
  double least = all;
  while (choice.places.size() < kMostOfFamily) {
    std::optional<std::size_t> nearest;
    double limit = least - (choice.places.empty() ? kWorthIt : kBetter) * all;
    for (std::size_t n = 0; n < order.size(); ++n) {
      double sum = 0;
      for (std::size_t t = 0; t < best.size(); ++t) sum += std::min(best[t], bytes[n][t]);
      if (sum >= limit) continue;
      nearest = n;
      least = sum;
      limit = sum - kBetter * all;
    }
    if (!nearest) break;
    choice.places.push_back(order[*nearest]);
    for (std::size_t t = 0; t < best.size(); ++t) best[t] = std::min(best[t], bytes[*nearest][t]);
  }
  double sampled = 0, there = 0;
  for (const TensorEntry* tensor : tensors) sampled += static_cast<double>(tensor->bytes.size());
  for (const TensorEntry& tensor : model.tensors) there += static_cast<double>(tensor.bytes.size());
  if (sampled > 0) choice.saved_bytes = (all - least) * there / sampled;
  return choice;
}

}  // namespace gbcompress
