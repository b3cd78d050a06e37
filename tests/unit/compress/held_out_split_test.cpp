#include "compress/quality/held_out_split.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <set>

#include "support/code_of.h"

namespace gbcompress {
namespace {

/// Sample i is the number i, labelled by `label`.
template <typename Label>
Dataset numbered(std::int64_t size, const Label& label) {
  const at::Tensor targets = torch::empty({size}, torch::kLong);
  for (std::int64_t i = 0; i < size; ++i) targets[i] = label(i);
  return {torch::arange(size, torch::kFloat).unsqueeze(1), targets};
}

std::set<std::int64_t> rows(const Dataset& data) {
  std::set<std::int64_t> result;
  const at::Tensor inputs = data.range(0, data.size()).inputs;
  for (std::int64_t i = 0; i < data.size(); ++i)
    result.insert(static_cast<std::int64_t>(inputs[i].flatten()[0].item<float>()));
  return result;
}

TEST(HeldOutSplit, EveryClassIsHeldOutInProportionEvenWhereDataAreSorted) {
  // 8,000 of class 0, then 1,600 of class 1, then 400 of class 2.
  const Dataset data = numbered(10'000, [](std::int64_t i) {
    return i < 8000 ? 0 : i < 9600 ? 1 : 2;
  });
  const HeldOutSplit split = held_out_split(data, 0);
  EXPECT_EQ(split.held_out.size(), 1000);
  EXPECT_EQ(split.train.size(), 9000);
  std::map<std::int64_t, int> count;
  for (const std::int64_t i : rows(split.held_out)) ++count[i < 8000 ? 0 : i < 9600 ? 1 : 2];
  EXPECT_NEAR(count[0], 800, 1);
  EXPECT_NEAR(count[1], 160, 1);
  EXPECT_NEAR(count[2], 40, 1);
  // Labels came along with their inputs.
  const Batch all = split.held_out.range(0, split.held_out.size());
  for (std::int64_t i = 0; i < split.held_out.size(); ++i) {
    const auto at = static_cast<std::int64_t>(all.inputs[i][0].item<float>());
    EXPECT_EQ(all.targets[i].item<std::int64_t>(), at < 8000 ? 0 : at < 9600 ? 1 : 2);
  }
}

TEST(HeldOutSplit, NothingIsInBothPartsAndNothingIsLost) {
  const Dataset data = numbered(1437, [](std::int64_t i) { return i % 10; });
  const HeldOutSplit split = held_out_split(data, 3);
  std::set<std::int64_t> all = rows(split.train);
  for (const std::int64_t i : rows(split.held_out)) EXPECT_TRUE(all.insert(i).second) << i;
  EXPECT_EQ(all.size(), 1437u);
  EXPECT_GE(split.held_out.size(), 1437 / 4 - 1) << "few data: enough to tell half a percent";
}

TEST(HeldOutSplit, TheSeedDecides) {
  const Dataset data = numbered(2000, [](std::int64_t i) { return i % 2; });
  EXPECT_EQ(rows(held_out_split(data, 1).held_out), rows(held_out_split(data, 1).held_out));
  EXPECT_NE(rows(held_out_split(data, 1).held_out), rows(held_out_split(data, 2).held_out));
}

TEST(HeldOutSplit, WindowsOfTextAreHeldOutInBlocksThatNoTrainingWindowOverlaps) {
  // Windows of 8 characters, 4 apart: window i holds the characters 4i to 4i + 7.
  const at::Tensor text = torch::arange(40'004, torch::kLong);
  const Dataset data(text.narrow(0, 0, 40'003).unfold(0, 8, 4),
                     text.narrow(0, 1, 40'003).unfold(0, 8, 4));
  const HeldOutSplit split = held_out_split(data, 0);
  EXPECT_NEAR(split.held_out.size(), data.size() / 10, 1);
  std::set<std::int64_t> held_labels;
  const at::Tensor held = split.held_out.range(0, split.held_out.size()).targets;
  for (std::int64_t i = 0; i < held.numel(); ++i)
    held_labels.insert(held.flatten()[i].item<std::int64_t>());
  const at::Tensor seen = split.train.range(0, split.train.size()).targets.flatten();
  std::int64_t both = 0;
  for (std::int64_t i = 0; i < seen.numel(); ++i)
    both += held_labels.count(seen[i].item<std::int64_t>());
  EXPECT_EQ(both, 0);
  EXPECT_GT(split.train.size(), data.size() * 8 / 10);
}

TEST(HeldOutSplit, SmallDataHaveBothParts) {
  for (const std::int64_t size : {2, 3, 5, 11}) {
    const HeldOutSplit split = held_out_split(numbered(size, [](std::int64_t) { return 0; }), 0);
    EXPECT_GE(split.train.size(), 1) << size;
    EXPECT_GE(split.held_out.size(), 1) << size;
    EXPECT_EQ(split.train.size() + split.held_out.size(), size);
  }
  EXPECT_EQ(code_of([] { held_out_split(numbered(1, [](std::int64_t) { return 0; }), 0); }),
            Errc::kUsage);
}

TEST(HeldOutSplit, FewSequencesLoseFewNeighbors) {
  const at::Tensor clips = torch::arange(48, torch::kFloat).unsqueeze(1).expand({48, 5});
  const HeldOutSplit split = held_out_split(Dataset(clips, clips), 0);
  EXPECT_EQ(split.held_out.size(), 12);
  EXPECT_GE(split.train.size(), 48 - 12 - 2 * 3);
}

TEST(SomeOf, KeepsTheClassesInProportion) {
  const Dataset data = numbered(1000, [](std::int64_t i) { return i < 900 ? 0 : 1; });
  const Dataset some = some_of(data, 100, 0);
  EXPECT_EQ(some.size(), 100);
  std::int64_t ones = 0;
  for (const std::int64_t i : rows(some)) ones += i >= 900;
  EXPECT_NEAR(ones, 10, 1);
  EXPECT_EQ(some_of(data, 5000, 0).size(), 1000);
}

}  // namespace
}  // namespace gbcompress
