#include "golden/delta_sample.h"

#include <cmath>
#include <cstring>

#include "base/random.h"
#include "gbcompress/atomic_file.h"
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
  sample.writer.set_bases({base.digest()});
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

std::vector<std::byte> layered() {
  const std::vector<std::int64_t> shape = {3, 150};
  const std::vector<std::uint16_t> exact = halves(normals(450, 6, 0.02f));
  const auto bytes = std::as_bytes(std::span(exact));
  ArtifactWriter draft("", R"({"draft": 1})"), rest("", "");
  draft.set_layer(Layer::kDraft);
  CodedValues values{.grid = default_grid(shape), .step = -96};
  for (const float value : normals(450, 6, 0.02f))
    values.integers.push_back(static_cast<std::int32_t>(std::lrint(value * 64)));
  draft.add_coded("changed", DType::kBF16, shape, values);
  draft.add_plain("same", DType::kU8, {4}, bytes.first(4));
  std::vector<std::byte> file = draft.encode();
  const auto reader = ArtifactReader::from_bytes(file, "the draft");
  rest.set_layer(Layer::kExact);
  rest.add_change("changed", DType::kBF16, shape,
                  encode_change(DType::kBF16, shape, decode_tensor(reader, 0), bytes));
  rest.add_base("same", DType::kU8, {4});
  rest.add_plain("other", DType::kU8, {6}, bytes.first(6));
  const std::vector<std::byte> part = rest.encode();
  constexpr std::size_t kDigest = 16;
  file.insert(file.end(), part.begin(), part.end() - kDigest);
  const std::string digest = sha256(file);
  const auto stored = std::as_bytes(std::span(digest)).first(kDigest);
  file.insert(file.end(), stored.begin(), stored.end());
  return file;
}

namespace {

using Pieces = std::vector<TensorPiece>;
using Sections = std::vector<std::vector<std::byte>>;

std::vector<float> joined(std::initializer_list<std::vector<float>> parts) {
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::vector<std::byte> change_of(const std::vector<std::int64_t>& shape,
                                 const std::vector<float>& before, const std::vector<float>& now) {
  return encode_change(DType::kF32, shape, std::as_bytes(std::span(before)),
                       std::as_bytes(std::span(now)));
}

std::vector<std::byte> bytes_of_floats(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

DeltaSample pieces() {
  DeltaSample sample{{}, {}, ArtifactWriter("", "")};
  constexpr auto kBase = TensorPiece::Source::kBase;
  constexpr auto kItself = TensorPiece::Source::kItself;
  const std::vector<float> table = normals(40 * 16, 11), other = normals(60, 12);
  const std::vector<float> matrix = normals(8 * 16, 13), added = normals(3 * 16, 14);
  std::vector<float> moved = matrix, near = table;
  for (std::size_t i = 0; i < moved.size(); i += 5) moved[i] *= 1.001f;
  for (float& value : near) value *= 1.0001f;
  sample.base.add("table", {40, 16}, table);
  sample.base.add("kept", {60}, other);
  sample.second.add("kept", {60}, normals(60, 15));
  sample.second.add("matrix", {8, 16}, matrix);
  sample.second.sorted();
  sample.base.sorted();
  const BaseModel first(sample.base.bundle), second(sample.second.bundle);
  ArtifactWriter& writer = sample.writer;
  writer.set_bases({first.digest(), second.digest()});
  // Rows added behind a table that changed, and rows of the middle left out.
  sample.now.add("table", {43, 16}, joined({near, added}));
  writer.add_pieces("table", DType::kF32, {43, 16},
                    {{.elements = 640, .source = kBase, .changed = true}, {.elements = 48}},
                    Sections{change_of({40, 16}, table, near), bytes_of_floats(added)});
  sample.now.add(
      "short", {30, 16},
      joined({{table.begin(), table.begin() + 160}, {table.begin() + 320, table.end()}}));
  writer.add_pieces("short", DType::kF32, {30, 16},
                    {{.elements = 160, .source = kBase, .name = "table"},
                     {.elements = 320, .source = kBase, .name = "table", .first = 320}},
                    Sections(2));
  // A stack of the other model's matrix, of its change, of that again, and of elements of their
  // own.
  sample.now.add("stack", {4, 8, 16}, joined({matrix, moved, moved, normals(128, 16)}));
  writer.add_pieces(
      "stack", DType::kF32, {4, 8, 16},
      {{.elements = 128, .source = kBase, .base = 1, .name = "matrix"},
       {.elements = 128, .source = kItself, .changed = true},
       {.elements = 128, .source = kItself, .first = 128},
       {.elements = 128}},
      Sections{{}, change_of({8, 16}, matrix, moved), {}, bytes_of_floats(normals(128, 16))});
  sample.now.add("kept", {60}, normals(60, 15));
  writer.add_base("kept", DType::kF32, {60}, 1);
  sample.now.add("matrix", {8, 16}, moved);
  writer.add_change("matrix", DType::kF32, {8, 16}, change_of({8, 16}, matrix, moved), 1);
  sample.now.sorted();
  writer.set_digest(BaseModel(sample.now.bundle).digest());
  return sample;
}

}  // namespace gbcompress::samples
