#include "golden/samples.h"

#include <cstring>
#include <nlohmann/json.hpp>

#include "artifact/decode.h"
#include "base/byte_reader.h"
#include "base/random.h"

namespace gbcompress::samples {
namespace {

std::vector<float> numbers(std::int64_t n, std::uint64_t seed, float deviation = 0.3f) {
  std::vector<float> result(static_cast<std::size_t>(n));
  RandomStream(seed, "samples").fill_normal(result, 0, deviation);
  return result;
}

GNetPlan plan_of(const char* type, std::vector<std::int64_t> shape, const MatrixView& view,
                 std::vector<std::int64_t> hidden, std::int64_t tile_weights) {
  ParameterInfo parameter;
  parameter.name = type;
  parameter.shape = std::move(shape);
  parameter.std = 0.07;
  GNetOptions options;
  options.hidden = std::move(hidden);
  options.tile_weights = tile_weights;
  GNetPlan plan = make_plan(parameter, view, options);
  plan.type_id = type;
  return plan;
}

void add(ArtifactWriter& writer, const std::string& name, DType dtype, const GNetPlan& plan,
         Coding coding, std::uint64_t seed) {
  writer.add_generated(name, dtype, plan.shape, plan, coding, numbers(plan_parameters(plan), seed));
}

void add_floats(ArtifactWriter& writer, const std::string& name, std::int64_t n,
                std::uint64_t seed) {
  const auto values = numbers(n, seed);
  writer.add_plain(name, DType::kF32, {n}, std::as_bytes(std::span(values)));
}

}  // namespace

ArtifactWriter random_artifact(std::uint64_t seed) {
  const RandomStream random(seed, "random artifact");
  std::uint64_t index = 0;
  const auto roll = [&](std::int64_t low, std::int64_t high) {
    return low + random.bits(index++) % (high - low + 1);
  };
  const DType types[] = {DType::kF32, DType::kF16, DType::kBF16, DType::kF64};
  const MatrixView views[] = {
      {}, {.row_dim = 1, .col_dim = 0}, {.row_splits = 3}, {.col_splits = 2}, {.col_dim = -1}};
  ArtifactWriter writer(seed % 2 ? "mlp" : "", seed % 3 ? R"({"seed": 1})" : "");
  for (auto n = roll(1, 4); n > 0; --n) {
    const std::string name = "layer." + std::to_string(n) + ".w\xC3\xA9ight";
    const MatrixView view = views[roll(0, 4)];
    std::vector<std::int64_t> shape = {roll(1, 20) * view.row_splits};
    if (view.col_dim >= 0) shape.push_back(roll(1, 20) * view.col_splits);
    for (auto d = roll(0, 2); d > 0; --d) shape.push_back(roll(1, 3));
    std::vector<std::int64_t> hidden;
    for (auto d = roll(1, 3); d > 0; --d) hidden.push_back(roll(1, 9));
    GNetPlan plan = plan_of("linear", shape, view, hidden, roll(1, 400));
    const auto code = [&](std::int64_t kinds) -> AxisCode {
      const auto kind = static_cast<Encoding>(roll(0, kinds));
      return {kind, kind < Encoding::kFourier ? 0 : roll(1, 3)};
    };
    if (const auto kind = static_cast<Generator>(roll(0, 3)); is_product(kind)) {
      plan.generator = kind;
      plan.hidden.clear();
      plan.rank = roll(1, 5);
    } else {
      plan.generator = kind;
      plan.row_code = code(3);
      plan.col_code = code(3);
      for (AxisCode& c : plan.kernel_codes) c = code(3);
      if (roll(0, 2) == 0) plan.row_code = {Encoding::kLatent, roll(1, 3)};
      if (roll(0, 2) == 0) plan.col_code = {Encoding::kLatent, roll(1, 3)};
      if (roll(0, 3) == 0) plan.col_code = {Encoding::kPixel, roll(1, 4), {1, plan.tile_cols}};
    }
    if (roll(0, 1)) plan.type_revision = static_cast<std::uint32_t>(roll(1, 300));
    add(writer, name, types[roll(0, 3)], plan, static_cast<Coding>(roll(0, 2)), seed + index);
    add_floats(writer, name + ".bias", roll(0, 40), seed + index);
    if (roll(0, 1)) writer.add_tied(name + ".tied", name);
  }
  const std::vector<std::byte> zeros(static_cast<std::size_t>(8 * roll(0, 50)));
  writer.add_plain("counter", DType::kI64, {static_cast<std::int64_t>(zeros.size()) / 8}, zeros);
  writer.add_plain("scalar", DType::kU8, {}, std::vector<std::byte>(1));
  return writer;
}

std::vector<Named> golden() {
  std::vector<Named> result;
  {
    // The example of docs/artifact-format.md.
    GNetPlan plan = plan_of("linear", {2, 3}, {}, {1}, 6);
    plan.output_scale = 0.5f;
    const float theta[] = {1, -0.5f, 0.25f, 0.125f, 2, -1}, bias[] = {1, -2};
    ArtifactWriter writer("", "");
    writer.add_generated("w", DType::kF32, plan.shape, plan, Coding::kI8, theta);
    writer.add_plain("b", DType::kF32, {2}, std::as_bytes(std::span(bias)));
    result.push_back({"tiny", std::move(writer)});
  }
  {
    ArtifactWriter writer("mlp", R"({"ratio":20})");
    add(writer, "0.weight", DType::kF32, plan_of("linear", {40, 50}, {}, {16}, 400), Coding::kI8,
        1);
    add_floats(writer, "0.bias", 40, 2);
    result.push_back({"linear_int8", std::move(writer)});
  }
  {
    ArtifactWriter writer("", "");
    add(writer, "conv.weight", DType::kF16, plan_of("conv", {10, 7, 3, 3}, {}, {8}, 200),
        Coding::kF16, 3);
    add(writer, "up.weight", DType::kBF16,
        plan_of("conv", {5, 6, 2}, {.row_dim = 1, .col_dim = 0}, {4}, 30), Coding::kF16, 4);
    add_floats(writer, "conv.bias", 10, 5);
    writer.add_tied("shared.weight", "conv.weight");
    const std::vector<std::byte> counter(8, std::byte{1});
    writer.add_plain("bn.num_batches_tracked", DType::kI64, {}, counter);
    result.push_back({"conv_fp16", std::move(writer)});
  }
  {
    // Every generator and every code beside binary ones.
    ArtifactWriter writer("", "");
    GNetPlan plan = plan_of("linear", {20, 24}, {}, {5}, 576);
    plan.row_code = {Encoding::kFourier, 3};
    plan.col_code = {Encoding::kPixel, 2, {4, 2, 3}};
    add(writer, "waves", DType::kF32, plan, Coding::kI8, 11);
    plan = plan_of("linear", {20, 24}, {}, {6, 3}, 100);
    plan.row_code = {Encoding::kLatent, 2};
    plan.col_code = {Encoding::kLatent, 3};
    plan.generator = Generator::kStochastic;
    add(writer, "latent", DType::kF32, plan, Coding::kF16, 12);
    plan = plan_of("conv", {9, 7, 3}, {}, {5}, 60);
    plan.hidden.clear();
    plan.generator = Generator::kLowRank;
    plan.rank = 2;
    add(writer, "low_rank", DType::kF32, plan, Coding::kI8, 13);
    plan.generator = Generator::kXox;
    plan.rank = 3;
    add(writer, "xox", DType::kF16, plan, Coding::kF32, 14);
    result.push_back({"generators", std::move(writer)});
  }
  {
    ArtifactWriter writer("", "");
    GNetPlan plan = plan_of("attention", {36, 12}, {.row_splits = 3}, {6, 5, 4}, 144);
    plan.row_code = Encoding::kGray;
    plan.col_code = Encoding::kOneHot;
    plan.type_revision = 2;
    add(writer, "attn.in_proj_weight", DType::kF64, plan, Coding::kF32, 6);
    result.push_back({"deep_fp32", std::move(writer)});
  }
  return result;
}

std::vector<std::byte> expanded(const ArtifactReader& artifact) {
  nlohmann::json header = nlohmann::json::object();
  std::vector<std::byte> data;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    const auto bytes = decode_tensor(artifact, i);
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
