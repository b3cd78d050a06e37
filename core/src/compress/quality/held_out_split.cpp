#include "compress/quality/held_out_split.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// One in ten, but as many as tell half a percent from nothing, as long as that is a quarter.
constexpr std::int64_t kPart = 10, kLeastPart = 4, kEnoughHeld = 400;
/// Neighbors of blocks are in neither part, so few samples make fewer blocks.
constexpr std::int64_t kBlocks = 8, kLeastBlock = 4;

std::int64_t held_count(std::int64_t size) {
  const std::int64_t wanted = std::max(size / kPart, std::min(kEnoughHeld, size / kLeastPart));
  return std::clamp<std::int64_t>(wanted, 1, size - 1);
}

std::vector<std::int64_t> shuffled(std::int64_t size, std::uint64_t seed) {
  return RandomStream(seed, "hold back").permutation(size);
}

/// The first `count` of a shuffled order, each class (one label a sample) in proportion.
std::vector<std::int64_t> drawn(const Dataset& data, std::int64_t count, std::uint64_t seed) {
  const at::Tensor labels = data.everything().targets.contiguous();
  const auto* label = labels.const_data_ptr<std::int64_t>();
  std::map<std::int64_t, std::vector<std::int64_t>> classes;
  for (const std::int64_t i : shuffled(data.size(), seed)) classes[label[i]].push_back(i);
  // Every class spreads its samples evenly over [0, 1); the first ones of all are taken.
  std::vector<std::pair<double, std::int64_t>> order;
  for (const auto& [ignored, members] : classes)
    for (std::size_t k = 0; k < members.size(); ++k)
      order.emplace_back((static_cast<double>(k) + 0.5) / static_cast<double>(members.size()),
                         members[k]);
  std::sort(order.begin(), order.end());
  std::vector<std::int64_t> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(order[static_cast<std::size_t>(i)].second);
  return result;
}

Dataset rows_of(const Dataset& data, std::vector<std::int64_t> rows) {
  std::sort(rows.begin(), rows.end());
  return data.subset(rows);
}

bool labelled(const Dataset& data) {
  return data.has_classes() && data.range(0, 1).targets.dim() == 1;
}

/// 1 for samples of the held-out split, 2 for those of neither part.
std::vector<char> held_blocks(std::int64_t size, std::int64_t count, std::uint64_t seed) {
  std::vector<char> use(static_cast<std::size_t>(size), 0);
  const std::int64_t blocks = std::clamp<std::int64_t>(count / kLeastBlock, 1, kBlocks);
  const RandomStream random(seed, "hold back");
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t length = count * (b + 1) / blocks - count * b / blocks;
    const std::int64_t low = size * b / blocks, high = size * (b + 1) / blocks;
    const std::int64_t room = std::max<std::int64_t>(high - low - length, 0);
    const std::int64_t first =
        low + static_cast<std::int64_t>(random.bits(static_cast<std::uint64_t>(b)) %
                                        static_cast<std::uint64_t>(room + 1));
    for (std::int64_t i = first; i < std::min(first + length, size); ++i)
      use[static_cast<std::size_t>(i)] = 1;
  }
  for (std::size_t i = 0; i < use.size(); ++i)
    if (use[i] == 0 && ((i > 0 && use[i - 1] == 1) || (i + 1 < use.size() && use[i + 1] == 1)))
      use[i] = 2;
  return use;
}

}  // namespace

HeldOutSplit held_out_split(const Dataset& data, std::uint64_t seed) {
  const std::int64_t size = data.size();
  if (size < 2)
    throw Error(Errc::kUsage, "the training split has " + std::to_string(size) +
                                  " samples, too few for a held-out split; give at least 2");
  std::vector<char> use(static_cast<std::size_t>(size), 0);
  if (labelled(data)) {
    for (const std::int64_t i : drawn(data, held_count(size), seed))
      use[static_cast<std::size_t>(i)] = 1;
  } else {
    use = held_blocks(size, held_count(size), seed);
  }
  std::vector<std::int64_t> train, held_out;
  for (std::int64_t i = 0; i < size; ++i) {
    if (use[static_cast<std::size_t>(i)] == 1) held_out.push_back(i);
    if (use[static_cast<std::size_t>(i)] == 0) train.push_back(i);
  }
  if (train.empty()) train = held_out;  // two overlapping samples: better than none
  return {rows_of(data, std::move(train)), rows_of(data, std::move(held_out))};
}

Dataset some_of(const Dataset& data, std::int64_t count, std::uint64_t seed) {
  if (count >= data.size()) return data;
  if (labelled(data)) return rows_of(data, drawn(data, count, seed));
  std::vector<std::int64_t> rows = shuffled(data.size(), seed);
  rows.resize(static_cast<std::size_t>(count));
  return rows_of(data, std::move(rows));
}

}  // namespace gbcompress
