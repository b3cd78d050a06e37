#include "gbcompress/weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "gbcompress/decode.h"
#include "quantize/allocation/bit_allocation.h"
#include "support/made_tensors.h"

namespace gbcompress {
namespace {

using testing::MadeTensors;
using testing::normals;

constexpr const char* kArch = "resnet20";

/// A resnet20 with made weights and statistics, its tensors sorted by name as those of files are.
MadeTensors made_resnet() {
  MadeTensors made;
  std::uint64_t seed = 1;
  const std::vector<LayoutEntry> layout = arch_layout(kArch).value();
  for (const LayoutEntry& entry : layout) {
    std::int64_t count = 1;
    for (const std::int64_t side : entry.shape) count *= side;
    std::vector<float> values = normals(count, seed++);
    if (entry.name.ends_with(".running_var"))
      for (float& v : values) v = std::fabs(v) + 0.5f;
    made.add(entry.name, entry.shape, values);
  }
  made.sorted();
  return made;
}

/// Whatever the order.
const TensorEntry& entry_of(const TensorBundle& bundle, const std::string& name) {
  return *std::find_if(bundle.tensors.begin(), bundle.tensors.end(),
                       [&](const TensorEntry& tensor) { return tensor.name == name; });
}

std::vector<float> numbers(const TensorBundle& bundle, const std::string& name) {
  return numbers_of(entry_of(bundle, name));
}

bool same_bytes(const TensorEntry& a, const TensorEntry& b) {
  return std::equal(a.bytes.begin(), a.bytes.end(), b.bytes.begin(), b.bytes.end());
}

/// What a norm of this path computes for `x` in channel `c`.
double normed(const TensorBundle& bundle, const std::string& path, std::size_t c, double x) {
  const auto at = [&](const char* name) {
    return static_cast<double>(numbers(bundle, path + name)[c]);
  };
  return (x - at(".running_mean")) / std::sqrt(at(".running_var") + 1e-5) * at(".weight") +
         at(".bias");
}

TEST(Arrange, NothingChangesWhereNothingIsAsked) {
  const MadeTensors made = made_resnet();
  ASSERT_TRUE(fits_layout(made.bundle, kArch));
  const TensorBundle result = arranged(made.bundle, {.arch = kArch});
  const auto layout = arch_layout(kArch).value();
  ASSERT_EQ(result.tensors.size(), layout.size());
  for (std::size_t i = 0; i < layout.size(); ++i) {
    EXPECT_EQ(result.tensors[i].name, layout[i].name);
    EXPECT_TRUE(same_bytes(result.tensors[i], entry_of(made.bundle, layout[i].name)))
        << layout[i].name;
  }
}

TEST(Arrange, NormsComputeTheSameFromConstantStatistics) {
  const MadeTensors made = made_resnet();
  const TensorBundle result = arranged(made.bundle, {.max_bytes = 1000, .arch = kArch});
  const auto mean = numbers(result, "bn1.running_mean");
  EXPECT_TRUE(std::all_of(mean.begin(), mean.end(), [](float m) { return m == 0; }));
  for (std::size_t c = 0; c < mean.size(); ++c)
    EXPECT_NEAR(normed(result, "bn1", c, 0.7), normed(made.bundle, "bn1", c, 0.7), 1e-5);
}

TEST(Arrange, NormsWithATensorThatIsToStayExactAreLeftAlone) {
  const MadeTensors made = made_resnet();
  const TensorBundle result =
      arranged(made.bundle, {.max_error = 0.1, .exact = {"layer1.*.bias"}, .arch = kArch});
  for (const TensorEntry& tensor : result.tensors)
    if (tensor.name.starts_with("layer1.")) {
      EXPECT_TRUE(same_bytes(tensor, entry_of(made.bundle, tensor.name))) << tensor.name;
    }
  EXPECT_FALSE(same_bytes(entry_of(result, "bn1.bias"), entry_of(made.bundle, "bn1.bias")));
}

}  // namespace
}  // namespace gbcompress
