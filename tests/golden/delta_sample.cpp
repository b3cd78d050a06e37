#include "golden/delta_sample.h"

#include "base/random.h"
#include "gbcompress/decode.h"

namespace gbcompress::samples {
namespace {

using testing::MadeTensors;
using testing::normals;

/// bfloat16 of float32 numbers, cut.
std::vector<std::uint16_t> halves(const std::vector<float>& values) {
  std::vector<std::uint16_t> result;
  for (const float value : values) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    result.push_back(static_cast<std::uint16_t>(bits >> 16));
  }
  return result;
}

/// Elements as they are, and some of them moved.
/// @param unit  moves are up to 4 of them, of the first element much more
template <typename T>
void add(DeltaSample& sample, const std::string& name, DType dtype, std::vector<std::int64_t> shape,
         std::vector<T> values, unsigned rarity, T unit = 1) {
  sample.base.add<T>(name, dtype, shape, values);
  const RandomStream noise(values.size(), name);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (noise.bits(i) % rarity == 0)
      values[i] =
          static_cast<T>(values[i] + (static_cast<T>((noise.bits(i) >> 8) % 9) - T{4}) * unit);
  if (unit > 1) values[0] = static_cast<T>(values[0] + static_cast<T>(2000) * unit);
  sample.now.add<T>(name, dtype, shape, values);
}

}  // namespace

DeltaSample delta() {
  DeltaSample sample{{}, {}, ArtifactWriter("", "")};
  add(sample, "bf16.rare", DType::kBF16, {30, 50}, halves(normals(1500, 1, 0.02f)), 40);
  add(sample, "bf16.all", DType::kBF16, {20, 30}, halves(normals(600, 2, 0.02f)), 1);
  std::vector<std::uint32_t> words;
  for (const float value : normals(300, 3)) {
    words.push_back(0);
    std::memcpy(&words.back(), &value, sizeof value);
  }
  words[7] = 0x7FC00123;  // a NaN
  words[8] = 0x80000000;
  add(sample, "f32.all", DType::kF32, {300}, words, 1);
  add(sample, "f32.rare", DType::kF32, {3, 100}, words, 60);
  add<std::uint32_t>(sample, "f32.far", DType::kF32, {4, 75}, words, 1, 123'457);
  add(sample, "bf16.lines", DType::kBF16, {7, 150}, halves(normals(1050, 5, 0.02f)), 1);
  add(sample, "fp8", DType::kF8E4M3, {10, 20}, std::vector<std::uint8_t>(200, 0x31), 3);
  add(sample, "i64", DType::kI64, {40}, std::vector<std::uint64_t>(40, 1'000'000), 4);
  add(sample, "u16", DType::kU16, {200}, std::vector<std::uint16_t>(200, 77), 70);
  add(sample, "scalar", DType::kF16, {}, std::vector<std::uint16_t>{0x3C00}, 1);
  sample.base.add("same", {12}, normals(12, 4));
  sample.now.add("same", {12}, normals(12, 4));
  sample.base.sorted();
  sample.now.sorted();
  const BaseModel base(sample.base.bundle), now(sample.now.bundle);
  sample.writer.set_base(base.digest());
  sample.writer.set_digest(now.digest());
  for (const TensorEntry& tensor : sample.now.bundle.tensors) {
    const TensorEntry& before = *base.find(tensor.name);
    if (tensor.name == "same")
      sample.writer.add_base(tensor.name, tensor.dtype, tensor.shape);
    else
      sample.writer.add_change(
          tensor.name, tensor.dtype, tensor.shape,
          encode_change(tensor.dtype, tensor.shape, before.bytes, tensor.bytes));
  }
  return sample;
}

}  // namespace gbcompress::samples
