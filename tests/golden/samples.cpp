#include "golden/samples.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "base/byte_reader.h"
#include "base/random.h"
#include "gbcompress/decode.h"
#include "golden/sample_parts.h"

namespace gbcompress::samples {

ArtifactWriter random_artifact(std::uint64_t seed) {
  const RandomStream random(seed, "random artifact");
  std::uint64_t index = 0;
  const auto roll = [&](std::int64_t low, std::int64_t high) {
    return low + random.bits(index++) % (high - low + 1);
  };
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  const MatrixView views[] = {
      {}, {.row_dim = 1, .col_dim = 0}, {.row_splits = 3}, {.col_splits = 2}, {.col_dim = -1}};
  const CodecProfile coded = roll(0, 1) ? CodecProfile::kLanes : CodecProfile::kSmall;
  const auto values = [&](const std::vector<std::int64_t>& shape, std::uint64_t at) {
    const bool row_steps = roll(0, 1), dependent = roll(0, 1);
    CodedValues result = coded_values(shape, at, row_steps, dependent);
    result.grid.lanes = dependent && coded == CodecProfile::kLanes;
    return result;
  };
  ArtifactWriter writer(seed % 2 ? "mlp" : "", seed % 3 ? R"({"seed": 1})" : "");
  for (auto n = roll(1, 4); n > 0; --n) {
    const std::string name = "layer." + std::to_string(n) + ".w\xC3\xA9ight";
    const MatrixView view = views[roll(0, 4)];
    std::vector<std::int64_t> shape = {roll(1, 20) * view.row_splits};
    if (view.col_dim >= 0) shape.push_back(roll(1, 20) * view.col_splits);
    for (auto d = roll(0, 2); d > 0; --d) shape.push_back(roll(1, 3));
    std::vector<std::int64_t> hidden;
    for (auto d = roll(1, 3); d > 0; --d) hidden.push_back(roll(1, 9));
    GNetSpec spec = spec_of("linear", shape, view, hidden, roll(1, 400));
    const auto code = [&](std::int64_t kinds) -> AxisCode {
      const auto kind = static_cast<Encoding>(roll(0, kinds));
      return {kind, kind < Encoding::kFourier ? 0 : roll(1, 3)};
    };
    if (const auto kind = static_cast<Generator>(roll(0, 3)); is_product(kind)) {
      spec.generator = kind;
      spec.hidden.clear();
      spec.rank = roll(1, 5);
    } else {
      spec.generator = kind;
      spec.row_code = code(3);
      spec.col_code = code(3);
      for (AxisCode& c : spec.kernel_codes) c = code(3);
      if (roll(0, 2) == 0) spec.row_code = {Encoding::kLatent, roll(1, 3)};
      if (roll(0, 2) == 0) spec.col_code = {Encoding::kLatent, roll(1, 3)};
      if (roll(0, 3) == 0) spec.col_code = {Encoding::kPixel, roll(1, 4), {1, spec.tile_cols}};
    }
    if (roll(0, 1)) spec.type_revision = static_cast<std::uint32_t>(roll(1, 300));
    const DType dtype = types[roll(0, 3)];
    switch (roll(0, 5)) {
      case 0:
        writer.add_generated_coded(name, dtype, shape, spec, coded_theta(spec, seed + index));
        break;
      case 1:
        writer.add_predicted(name, dtype, shape, spec, coded_theta(spec, seed + index),
                             values(shape, seed + index));
        break;
      case 2:
        writer.add_coded(name, dtype, shape, values(shape, seed + index));
        break;
      default:
        add(writer, name, dtype, spec, static_cast<Coding>(roll(0, 2)), seed + index);
    }
    add_floats(writer, name + ".bias", roll(0, 40), seed + index);
    if (roll(0, 1)) writer.add_tied(name + ".tied", name);
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(8 * roll(0, 50)));
  writer.add_plain("counter", DType::kI64, {static_cast<std::int64_t>(zeros.size()) / 8}, zeros);
  writer.add_plain("scalar", DType::kU8, {}, std::vector<std::byte>(1));
  const float value = numbers(1, seed)[0];
  writer.add_constant("constant", DType::kF32, {roll(0, 9)}, std::as_bytes(std::span(&value, 1)));
  writer.set_profile(coded);
  return writer;
}

ArtifactWriter wide_artifact(CodecProfile profile) {
  const bool lanes = profile == CodecProfile::kLanes;
  ArtifactWriter writer("", "");
  for (const std::int64_t columns : {1024, 1025, 2049, 3000})
    for (const bool dependent : {false, true}) {
      const std::vector<std::int64_t> shape = {lanes ? 9 : 2, columns};
      CodedValues values =
          coded_values(shape, static_cast<std::uint64_t>(columns), true, dependent);
      values.grid.lanes = dependent && lanes;
      writer.add_coded("columns." + std::to_string(columns) + (dependent ? ".dependent" : ""),
                       DType::kF32, shape, std::move(values));
    }
  if (lanes) {
    const std::vector<std::int64_t> shape = {160, 2000};
    writer.add_coded("parts", DType::kF32, shape, coded_values(shape, 7, false, false));
    const std::vector<float> exact = numbers(std::int64_t{1} << 19, 3);
    writer.add_plain("exact", DType::kF32, {static_cast<std::int64_t>(exact.size())},
                     std::as_bytes(std::span(exact)));
  }
  writer.set_profile(profile);
  return writer;
}

std::vector<std::byte> expanded(const ArtifactReader& artifact) {
  nlohmann::json header = nlohmann::json::object();
  std::vector<std::byte> data;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    const auto bytes = decode_tensor(artifact, i, place_all());
    header[tensor.name] = {{"dtype", dtype_name(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data.insert(data.end(), bytes.begin(), bytes.end());
  }
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  std::vector<std::byte> file(sizeof length);
  std::memcpy(file.data(), &length, sizeof length);
  for (char c : text) append_number(file, c);
  file.insert(file.end(), data.begin(), data.end());
  return file;
}

}  // namespace gbcompress::samples
