#include "artifact/sections/elements.h"
#include "artifact/sections/levels.h"
#include "base/random.h"
#include "gbcompress/decode.h"
#include "golden/sample_parts.h"
#include "golden/samples.h"

namespace gbcompress::samples {
namespace {

/// As that profile has them.
CodedValues in_lanes(CodecProfile profile, CodedValues values) {
  values.grid.lanes = values.grid.dependent && profile == CodecProfile::kLanes;
  return values;
}

/// Coded tensors of every form, pictures and kernels among them, and large integers.
ArtifactWriter coded_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  writer.add_coded("fc.weight", DType::kF32, {12, 64}, coded_values({12, 64}, 21, true));
  writer.add_coded("fc.bias", DType::kF32, {12}, coded_values({12}, 22, false));
  writer.add_coded("conv.weight", DType::kF16, {6, 5, 3, 3}, coded_values({6, 5, 3, 3}, 23, false));
  CodedValues large = coded_values({7, 9}, 24, false);
  large.grid = {9, 7, 3};
  for (int bit = 0; bit <= 20; ++bit) large.integers[static_cast<std::size_t>(3 * bit)] = 1 << bit;
  large.integers[1] = -kMaxMagnitude;
  writer.add_coded("large", DType::kF64, {7, 9}, large);
  writer.add_coded("scalar", DType::kBF16, {}, coded_values({}, 26, false));
  writer.add_tied("shared.weight", "fc.weight");
  return writer;
}

/// Coded g-nets alone and as predictions, of every block that a g-net has.
ArtifactWriter predicted_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  GNetSpec spec = spec_of("linear", {20, 24}, {}, {6, 3}, 100);
  spec.row_code = {Encoding::kLatent, 2};
  spec.col_code = {Encoding::kLatent, 3};
  writer.add_predicted("latent", DType::kF32, spec.shape, spec, coded_theta(spec, 31),
                       coded_values(spec.shape, 32, true));
  spec = spec_of("conv", {9, 7, 3}, {}, {5}, 60);
  writer.add_generated_coded("conv", DType::kF16, spec.shape, spec, coded_theta(spec, 33));
  spec.hidden.clear();
  spec.generator = Generator::kXox;
  spec.rank = 2;
  writer.add_predicted("xox", DType::kBF16, spec.shape, spec, coded_theta(spec, 34),
                       coded_values(spec.shape, 35, false));
  add_floats(writer, "bias", 9, 36);
  return writer;
}

/// Dependent tensors of every form between others, some long enough for tables to be learned.
ArtifactWriter dependent_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  writer.add_coded("fc.weight", DType::kF32, {12, 64},
                   in_lanes(profile, coded_values({12, 64}, 61, true, true)));
  writer.add_coded("fc.bias", DType::kF32, {12}, coded_values({12}, 62, false, false));
  writer.add_coded("conv.weight", DType::kF16, {6, 5, 3, 3},
                   in_lanes(profile, coded_values({6, 5, 3, 3}, 63, false, true)));
  GNetSpec spec = spec_of("linear", {8, 9}, {}, {3}, 40);
  spec.generator = Generator::kStochastic;  // tells the coder what it expects
  writer.add_predicted("residual", DType::kBF16, spec.shape, spec, coded_theta(spec, 64),
                       in_lanes(profile, coded_values(spec.shape, 65, true, true)));
  CodedValues large = in_lanes(profile, coded_values({40, 9}, 66, false, true));
  for (std::size_t i = 0; i < large.integers.size(); ++i)
    large.integers[i] = large.integers[i] * 37 + static_cast<std::int32_t>(i % 3);
  large.integers[7] = -kMaxMagnitude;
  writer.add_coded("large", DType::kF64, {40, 9}, large);
  writer.add_coded("scalar", DType::kF32, {}, in_lanes(profile, coded_values({}, 67, false, true)));
  return writer;
}

/// Profile small for some tensors beside others in stripes.
ArtifactWriter mixed_sample() {
  ArtifactWriter writer("", "");
  const auto add = [&](const char* name, std::vector<std::int64_t> shape, CodecProfile profile,
                       CodedValues values) {
    values = in_lanes(profile, std::move(values));
    writer.add_coded_section(name, DType::kF32, std::move(shape), values,
                             encode_section(values, profile), profile);
  };
  add("a.weight", {12, 64}, CodecProfile::kSmall, coded_values({12, 64}, 81, true, true));
  add("b.weight", {9, 20}, CodecProfile::kLanes, coded_values({9, 20}, 82, true, true));
  add_floats(writer, "b.bias", 9, 83);
  add("c.weight", {6, 5, 3, 3}, CodecProfile::kSmall, coded_values({6, 5, 3, 3}, 84, false, false));
  add("d.weight", {5, 30}, CodecProfile::kLanes, coded_values({5, 30}, 85, false, false));
  writer.add_tied("tied", "a.weight");
  return writer;
}

/// Dependent tensors whose names and shapes follow from the architecture.
ArtifactWriter known_dependent_sample() {
  ArtifactWriter writer("mlp:12-7-5", "");
  std::uint64_t seed = 71;
  const auto layout = arch_layout("mlp:12-7-5");
  for (const LayoutEntry& entry : layout.value()) {
    writer.add_coded(entry.name, entry.dtype, entry.shape,
                     coded_values(entry.shape, seed, seed % 2 == 0, seed % 4 != 1));
    ++seed;
  }
  return writer;
}

/// Nothing but the architecture's name, steps and integers.
ArtifactWriter known_sample() {
  ArtifactWriter writer("mlp:12-7-5", "");
  std::uint64_t seed = 41;
  const auto layout = arch_layout("mlp:12-7-5");
  for (const LayoutEntry& entry : layout.value())
    writer.add_coded(entry.name, entry.dtype, entry.shape,
                     coded_values(entry.shape, seed++, false));
  return writer;
}

/// Short floats of several widths and types, and whole numbers of every type.
ArtifactWriter exact_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  writer.add_coded("bias", DType::kF32, {90}, short_floats({90}, 81, 7, -3));
  writer.add_coded("tiny", DType::kF32, {40}, short_floats({40}, 82, 16, -126));
  writer.add_coded("huge", DType::kF64, {5, 9}, short_floats({5, 9}, 83, 1, 127));
  writer.add_coded("half", DType::kF16, {30}, short_floats({30}, 84, 3, 9));
  writer.add_coded("brain", DType::kBF16, {30}, short_floats({30}, 85, 9, 20));
  CodedValues whole{.grid = {1, 7, 0}, .integers = {-90, 27, 0, 1, -1, 5, 100}, .step = 0};
  writer.add_coded("i8", DType::kI8, {7}, whole);
  writer.add_coded("i16", DType::kI16, {7}, whole);
  writer.add_coded("i32", DType::kI32, {7}, whole);
  whole.integers[0] = -kMaxMagnitude;
  writer.add_coded("i64", DType::kI64, {7}, whole);
  whole = {.grid = {3, 2, 0}, .integers = {-128, 127, 0, 3, -5, 8}, .step = 128};
  writer.add_coded("u8", DType::kU8, {3, 2}, whole);
  writer.add_coded("u16", DType::kU16, {3, 2}, whole);
  writer.add_coded("u32", DType::kU32, {3, 2}, whole);
  writer.add_coded("u64", DType::kU64, {3, 2}, whole);
  whole = {.grid = {1, 4, 0}, .integers = {-1, 0, 0, -1}, .step = 1};
  writer.add_coded("bool", DType::kBool, {4}, whole);
  return writer;
}

/// Whole numbers that are wide, of rows with the same largest magnitude and others, and nibbles.
ArtifactWriter whole_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  CodedValues wide = coded_values({12, 30}, 101, false);
  for (std::size_t i = 0; i < wide.integers.size(); ++i)
    wide.integers[i] = i % 30 == 7 * (i / 30) % 30 ? 127 : wide.integers[i] * 9 % 127;
  wide.step = -1;
  wide.grid.wide = true;
  writer.add_coded("int8", DType::kI8, {12, 30}, wide);
  wide = coded_values({3, 4, 5}, 102, false);
  for (std::int32_t& k : wide.integers) k *= 4099;
  wide.integers[9] = kMaxMagnitude;
  wide.step = 7;
  wide.grid.wide = true;
  writer.add_coded("int32", DType::kI32, {3, 4, 5}, wide);
  wide = {.grid = {1, 5, 0}, .integers = {60, -60, 0, 33, 1}, .step = 90};
  wide.grid.wide = true;
  writer.add_coded("uint8", DType::kU8, {5}, wide);
  for (const DType dtype : {DType::kU8, DType::kI16, DType::kU64}) {
    CodedValues nibbles{.grid = nibble_grid({3, 5}, dtype), .step = 8, .nibbles = true};
    const RandomStream noise(103, "nibbles");
    for (std::int64_t i = 0; i < nibbles.grid.size(); ++i)
      nibbles.integers.push_back(
          static_cast<std::int32_t>(noise.bits(static_cast<std::uint64_t>(i)) % 16) - 8);
    writer.add_coded("nibbles of " + std::string(dtype_name(dtype)), dtype, {3, 5}, nibbles);
  }
  return writer;
}

/// Floats without loss: exponents that are alike, planes of zeros, and what does not pack.
ArtifactWriter planes_sample() {
  ArtifactWriter writer("", "");
  const std::vector<float> values = numbers(160, 111);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64}) {
    const std::vector<std::byte> bytes = elements_of(values, dtype);
    writer.add_plain(std::string(dtype_name(dtype)), dtype, {8, 20}, bytes);
  }
  // Planes of all three kinds: coded exponents, zeros, random bits.
  std::vector<std::uint32_t> bits;
  const RandomStream noise(112, "planes");
  for (std::uint32_t i = 0; i < 300; ++i)
    bits.push_back((noise.bits(i) % 16 == 0 ? 121U : 120U) << 23 | (noise.bits(i) >> 24) << 15);
  writer.add_plain("kinds", DType::kF32, {300}, std::as_bytes(std::span(bits)));
  return writer;
}

/// Exact floats of rows, with two tables and 32 lanes, and with bits of mantissas beside the
/// exponents and escaped zeros.
ArtifactWriter rows_of_planes_sample() {
  ArtifactWriter writer("", "");
  const RandomStream noise(114, "rows");
  std::vector<float> rows;
  for (std::uint32_t i = 0; i < 64 * 256; ++i) {
    const std::uint64_t random = noise.bits(i) % 64;
    rows.push_back((i / 256 % 2 ? 8.0F : 1.0F) / (random == 0 ? 4.0F : random < 6 ? 2.0F : 1.0F));
  }
  writer.add_plain("rows", DType::kBF16, {64, 256}, elements_of(rows, DType::kBF16));
  std::vector<float> some = numbers(1200, 113);
  for (const std::size_t i : {0, 600, 1199}) some[i] = 0;
  writer.add_plain("escapes", DType::kBF16, {1200}, elements_of(some, DType::kBF16));
  return writer;
}

/// Pruned floats: zeros of both signs, which the first plane tells alone, and all zeros.
ArtifactWriter zeros_of_planes_sample() {
  ArtifactWriter writer("", "");
  std::vector<float> values = numbers(400, 115);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (i % 3 != 1) values[i] = i % 5 == 0 ? -0.0F : 0.0F;
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16, DType::kF64})
    writer.add_plain(std::string(dtype_name(dtype)), dtype, {20, 20}, elements_of(values, dtype));
  // A subnormal number has the exponent of zeros.
  values[1] = 1e-40F;
  writer.add_plain("subnormal", DType::kF32, {400}, elements_of(values, DType::kF32));
  return writer;
}

/// Palettes of every type, factors of several blocks, with zeros of both signs, and lines.
ArtifactWriter levels_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32, DType::kF64}) {
    CodedValues values = coded_values({9, 20}, 131, false);
    values.levels = {.dtype = dtype, .palette = 5};
    values.step = 2;
    for (std::int32_t& k : values.integers) k = k % 3;
    const auto size = static_cast<int>(dtype_bits(dtype));
    const std::uint64_t sign = std::uint64_t{1} << (size - 1);
    // NaN with a payload, -0 and subnormal numbers among them.
    const std::uint64_t numbers[] = {~std::uint64_t{0} >> (64 - size), sign, 0, 3, sign / 2 + 77};
    values.level_table = level_table(values.levels, numbers);
    writer.add_coded("palette " + std::string(dtype_name(dtype)), dtype, {9, 20}, values);
  }
  for (const DType dtype : {DType::kF16, DType::kBF16, DType::kF32}) {
    CodedValues values = coded_values({7, 50}, 132, false);
    values.levels = {.dtype = dtype, .block_rows = 3, .block_cols = 16, .negative_zero = 4};
    values.step = 1;
    std::vector<std::uint64_t> numbers;
    for (std::uint64_t i = 0; i < 12; ++i) numbers.push_back(0x3c123457 + i * 0x00345678);
    values.level_table = level_table(values.levels, numbers);
    writer.add_coded("factors " + std::string(dtype_name(dtype)), dtype, {7, 50}, values);
    CodedValues lines = coded_values({4, 12, 5}, 133, false);
    lines.levels = {.dtype = dtype, .positions = 12, .stride = 5};
    numbers.clear();
    const bool wide = dtype == DType::kF32;
    for (std::uint64_t i = 0; i < 80; ++i)
      numbers.push_back(i < 20   ? 0x3fe00000 + i * 4111
                        : i < 40 ? 0xba000000 + i * 77777
                        : wide   ? 0x3f000000 + i * 54321
                                 : 0x3c00 + i);
    lines.level_table = level_table(lines.levels, numbers);
    writer.add_coded("lines " + std::string(dtype_name(dtype)), dtype, {4, 12, 5}, lines);
  }
  return writer;
}

/// Cosines along every dimension, with row steps and dependent integers among them.
ArtifactWriter cosines_sample(CodecProfile profile) {
  ArtifactWriter writer("", "");
  writer.set_profile(profile);
  std::uint64_t seed = 121;
  for (const int axis : {0, 1, 2}) {
    CodedValues values = in_lanes(profile, coded_values({6, 5, 7}, seed++, axis == 1, axis != 0));
    values.axis = axis;
    writer.add_coded("axis " + std::to_string(axis), axis == 2 ? DType::kF16 : DType::kF32,
                     {6, 5, 7}, values);
  }
  CodedValues line = in_lanes(profile, coded_values({50}, seed, false, true));
  line.axis = 0;
  writer.add_coded("line", DType::kF64, {50}, line);
  return writer;
}

/// An architecture with short floats.
ArtifactWriter known_floats_sample() {
  ArtifactWriter writer("mlp:12-7-5", "");
  std::uint64_t seed = 91;
  const auto layout = arch_layout("mlp:12-7-5");
  for (const LayoutEntry& entry : layout.value()) {
    const bool vector = entry.shape.size() == 1;
    writer.add_coded(entry.name, entry.dtype, entry.shape,
                     vector ? short_floats(entry.shape, seed, seed % 4 == 0 ? 7 : 8, 1)
                            : coded_values(entry.shape, seed, true));
    ++seed;
  }
  return writer;
}

/// Tensors of an architecture as they are not expected, each in its way.
ArtifactWriter unusual_sample() {
  ArtifactWriter writer("mlp:12-7-5", "");
  const float zero = 0, one = 1;
  const GNetSpec spec = spec_of("linear", {5, 7}, {}, {3}, 35);
  writer.add_coded("0.weight", DType::kF32, {7, 12}, coded_values({7, 12}, 45, true));
  writer.add_constant("0.bias", DType::kF32, {7}, std::as_bytes(std::span(&zero, 1)));
  writer.add_predicted("2.weight", DType::kF32, {5, 7}, spec, coded_theta(spec, 46),
                       coded_values({5, 7}, 47, false));
  writer.add_constant("2.bias", DType::kF32, {5}, std::as_bytes(std::span(&one, 1)));
  return writer;
}

/// A convolutional net that is constant but for a few tensors.
ArtifactWriter norms_sample() {
  ArtifactWriter writer("resnet20:3", "");
  const auto layout = arch_layout("resnet20:3");
  for (const LayoutEntry& entry : layout.value()) {
    const auto real = static_cast<float>(entry.initial);
    const std::int64_t whole = entry.initial;
    const GNetSpec spec = spec_of("linear", {3, 64}, {}, {3}, 192);
    if (entry.name == "bn1.running_mean")
      add_floats(writer, entry.name, 16, 51);
    else if (entry.name == "linear.weight")
      add(writer, entry.name, entry.dtype, spec, Coding::kI8, 52);
    else if (entry.name == "linear.bias")
      writer.add_coded(entry.name, DType::kF16, {3}, coded_values({3}, 53, false));
    else
      writer.add_constant(entry.name, entry.dtype, entry.shape,
                          entry.dtype == DType::kF32 ? std::as_bytes(std::span(&real, 1))
                                                     : std::as_bytes(std::span(&whole, 1)));
  }
  return writer;
}

}  // namespace

std::vector<Named> golden() {
  std::vector<Named> result;
  for (const CodecProfile profile : {CodecProfile::kSmall, CodecProfile::kLanes}) {
    const std::string name(profile_name(profile));
    result.push_back({"coded_" + name, coded_sample(profile)});
    result.push_back({"residual_" + name, predicted_sample(profile)});
    result.push_back({"dependent_" + name, dependent_sample(profile)});
    result.push_back({"exact_" + name, exact_sample(profile)});
    result.push_back({"whole_" + name, whole_sample(profile)});
    result.push_back({"cosines_" + name, cosines_sample(profile)});
    result.push_back({"levels_" + name, levels_sample(profile)});
  }
  result.push_back({"mixed_lanes", mixed_sample()});
  result.push_back({"planes", planes_sample()});
  result.push_back({"planes_rows", rows_of_planes_sample()});
  result.push_back({"planes_zeros", zeros_of_planes_sample()});
  result.push_back({"known_arch", known_sample()});
  result.push_back({"known_dependent", known_dependent_sample()});
  result.push_back({"known_floats", known_floats_sample()});
  result.push_back({"unusual", unusual_sample()});
  result.push_back({"norms", norms_sample()});
  {
    // The example of docs/reference/artifact-format.md.
    GNetSpec spec = spec_of("linear", {2, 3}, {}, {1}, 6);
    spec.output_scale = 0.5f;
    const float theta[] = {1, -0.5f, 0.25f, 0.125f, 2, -1}, bias[] = {1, -2};
    ArtifactWriter writer("", "");
    writer.add_generated("w", DType::kF32, spec.shape, spec, Coding::kI8, theta);
    writer.add_plain("b", DType::kF32, {2}, std::as_bytes(std::span(bias)));
    result.push_back({"tiny", std::move(writer)});
  }
  {
    ArtifactWriter writer("mlp", R"({"ratio":20})");
    add(writer, "0.weight", DType::kF32, spec_of("linear", {40, 50}, {}, {16}, 400), Coding::kI8,
        1);
    add_floats(writer, "0.bias", 40, 2);
    result.push_back({"linear_int8", std::move(writer)});
  }
  {
    ArtifactWriter writer("", "");
    add(writer, "conv.weight", DType::kF16, spec_of("conv", {10, 7, 3, 3}, {}, {8}, 200),
        Coding::kF16, 3);
    add(writer, "up.weight", DType::kBF16,
        spec_of("conv", {5, 6, 2}, {.row_dim = 1, .col_dim = 0}, {4}, 30), Coding::kF16, 4);
    add_floats(writer, "conv.bias", 10, 5);
    writer.add_tied("shared.weight", "conv.weight");
    const std::vector<std::byte> counter(8, std::byte{1});
    writer.add_plain("bn.num_batches_tracked", DType::kI64, {}, counter);
    result.push_back({"conv_fp16", std::move(writer)});
  }
  {
    // Every generator and every code beside binary ones.
    ArtifactWriter writer("", "");
    GNetSpec spec = spec_of("linear", {20, 24}, {}, {5}, 576);
    spec.row_code = {Encoding::kFourier, 3};
    spec.col_code = {Encoding::kPixel, 2, {4, 2, 3}};
    add(writer, "waves", DType::kF32, spec, Coding::kI8, 11);
    spec = spec_of("linear", {20, 24}, {}, {6, 3}, 100);
    spec.row_code = {Encoding::kLatent, 2};
    spec.col_code = {Encoding::kLatent, 3};
    spec.generator = Generator::kStochastic;
    add(writer, "latent", DType::kF32, spec, Coding::kF16, 12);
    spec = spec_of("conv", {9, 7, 3}, {}, {5}, 60);
    spec.hidden.clear();
    spec.generator = Generator::kLowRank;
    spec.rank = 2;
    add(writer, "low_rank", DType::kF32, spec, Coding::kI8, 13);
    spec.generator = Generator::kXox;
    spec.rank = 3;
    add(writer, "xox", DType::kF16, spec, Coding::kF32, 14);
    result.push_back({"generators", std::move(writer)});
  }
  {
    ArtifactWriter writer("", "");
    GNetSpec spec = spec_of("attention", {36, 12}, {.row_splits = 3}, {6, 5, 4}, 144);
    spec.row_code = Encoding::kGray;
    spec.col_code = Encoding::kOneHot;
    spec.type_revision = 2;
    add(writer, "attn.in_proj_weight", DType::kF64, spec, Coding::kF32, 6);
    result.push_back({"deep_fp32", std::move(writer)});
  }
  return result;
}

}  // namespace gbcompress::samples
