// The .gbz container and what lies in it.
#include <hwy/targets.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "artifact/header/header.h"
#include "artifact/originals.h"
#include "artifact/sections/blocks.h"
#include "artifact/sections/coding.h"
#include "artifact/sections/packing.h"
#include "artifact/sections/requantized.h"
#include "base/byte_reader.h"
#include "base/random.h"
#include "fuzz/mutators.h"
#include "fuzz/target.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "golden/craft.h"
#include "golden/delta_sample.h"
#include "golden/samples.h"

namespace gbcompress::fuzz {
namespace {

constexpr ArtifactLimits kLimits = {
    .file_bytes = 1 << 20, .header_bytes = 1 << 18, .output_bytes = 1 << 20, .tensors = 4096};
/// Products of a g-net's parameters with what it generates: an artifact may ask for any amount of
/// arithmetic below output_bytes, and what takes long is no finding.
constexpr std::int64_t kMaxWork = 1 << 20;

[[noreturn]] void differ(const char* what) { throw std::logic_error(what); }

void run_artifact(Input input) {
  const auto artifact = ArtifactReader::from_bytes({input.begin(), input.end()}, "x.gbz", kLimits);
  std::int64_t work = 0;
  for (const ArtifactTensor& tensor : artifact.tensors()) {
    if (!has_spec(tensor.kind)) continue;
    std::int64_t elements = 1;
    for (const std::int64_t side : tensor.spec.shape) elements *= std::max<std::int64_t>(side, 1);
    work += elements * gnet_parameters(tensor.spec);
  }
  artifact.verify();
  if (const auto originals = originals_of(artifact); originals && originals->files.empty())
    differ("original files are none");
  if (work > kMaxWork) return;
  DecodeOptions options = samples::place_all();
  options.threads = 1;
  // Any base has zeros.
  const Bytes zeros(static_cast<std::size_t>(kLimits.output_bytes));
  options.base = [&](const BaseRange& range) {
    const std::int64_t bits = range.elements * dtype_bits(range.dtype);
    if (bits / 8 > kLimits.output_bytes) throw Error(Errc::kCorrupt, "a base has no such elements");
    return std::span(zeros).first(static_cast<std::size_t>(bits / 8));
  };
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) {
    const ArtifactTensor& tensor = artifact.tensors()[i];
    if (decode_tensor(artifact, i, options).size() !=
        static_cast<std::size_t>(tensor_bytes(tensor.shape, tensor.dtype)))
      differ("a tensor was decoded to another size than it declares");
  }
  artifact.tensor_bits();
}

std::vector<Bytes> artifact_seeds() {
  std::vector<Bytes> seeds;
  for (const auto& [name, writer] : samples::golden()) seeds.push_back(writer.encode());
  for (std::uint64_t seed = 0; seed < 24; ++seed)
    seeds.push_back(samples::random_artifact(seed).encode());
  seeds.push_back(samples::layered());
  seeds.push_back(samples::delta().writer.encode());
  seeds.push_back(samples::pieces().writer.encode());
  for (const auto& bad : craft::bad_files())
    if (bad.bytes.size() < 4096) seeds.push_back(bad.bytes);
  return seeds;
}

void run_header(Input input) {
  const Header header = parse_header(input, kLimits, "x.gbz");
  // What is accepted can be written, and says the same again.
  const std::vector<std::byte> written = encode_header(header);
  const Header again = parse_header(written, kLimits, "x.gbz");
  if (again.tensors.size() != header.tensors.size() || again.output_bytes != header.output_bytes ||
      encode_header(again) != written)
    differ("a header that was read is written differently");
}

std::vector<Bytes> header_seeds() {
  std::vector<Bytes> seeds;
  for (const Bytes& file : artifact_seeds()) {
    try {
      const Prelude prelude = read_prelude(file, kLimits, "x");
      const Bytes header = craft::parts(file).header;
      seeds.push_back(prelude.packed ? unpack(header, Packing::kZstd, prelude.header_raw, 1, "x")
                                     : header);
    } catch (const Error&) {  // one of the bad files
    }
  }
  return seeds;
}

/// Original files of three tensors: what is accepted can be written, and its headers completed.
void run_originals(Input input) {
  const std::vector<ArtifactTensor> tensors = {
      {.name = "a", .shape = {2}}, {.name = "b\"", .shape = {}}, {.name = "c", .shape = {0, 3}}};
  const OriginalFiles originals = OriginalFiles::decode(input, tensors.size(), "x");
  if (originals.encode().size() > input.size()) differ("original files grew");
  for (const OriginalFile& file : originals.files)
    if (whole_file(file, tensors, "x").holes.size() != file.content.holes.size())
      differ("a file with its header has other holes");
}

std::vector<Bytes> originals_seeds() {
  const auto hole = [](std::size_t tensor, std::uint64_t before) {
    return Hole{tensor, before, PayloadEncoding::kBytes, {}};
  };
  const std::string digest(32, 'd');
  const OriginalFile headed{
      40, digest, true, {}, {"m.safetensors", {hole(1, 0), hole(0, 0)}, Bytes(1)}};
  const OriginalFile whole{9, digest, false, {{0, {1, 0}}}, {"d/x", {hole(2, 4)}, Bytes(9)}};
  return {OriginalFiles{"safetensors", {headed}}.encode(),
          OriginalFiles{"safetensors", {headed, whole}}.encode(),
          OriginalFiles{"torch", {whole}}.encode()};
}

/// Packing, element bytes, unpacked size (4 bytes), packed bytes.
void run_packing(Input input) {
  if (input.size() < 6) return;
  const auto packing = static_cast<Packing>(std::to_integer<unsigned>(input[0]) % 4);
  const std::int64_t element = std::int64_t{1} << std::to_integer<unsigned>(input[1]) % 4;
  std::uint32_t raw = 0;
  std::memcpy(&raw, input.data() + 2, sizeof raw);
  raw %= 1 << 20;
  if (unpack(input.subspan(6), packing, raw, element, "x").size() != raw)
    differ("a section was unpacked to another size");
}

std::vector<Bytes> packing_seeds() {
  std::vector<Bytes> seeds;
  const RandomStream random(1, "fuzz packing");
  for (std::int64_t element : {1, 2, 4, 8})
    for (std::size_t n : {0u, 8u, 4000u, 40000u}) {
      Bytes raw(n);
      for (std::size_t i = 0; i < n; ++i)
        raw[i] = static_cast<std::byte>(random.bits(i) % (i % 4 == 3 ? 3 : 17));
      for (const bool floats : {false, true}) {
        const auto [packed, packing] = pack(raw, element, floats);
        Bytes seed = {static_cast<std::byte>(packing),
                      static_cast<std::byte>(element == 8 ? 3 : element / 2)};
        append_number(seed, static_cast<std::uint32_t>(n));
        seed.insert(seed.end(), packed.begin(), packed.end());
        seeds.push_back(std::move(seed));
      }
    }
  return seeds;
}

constexpr std::array<std::uint32_t, 11> kBlockTypes = {2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20};

/// Type, blocks, then the section.
void run_blocks(Input input) {
  if (input.size() < 3) return;
  const std::uint32_t type = kBlockTypes[std::to_integer<unsigned>(input[0]) % kBlockTypes.size()];
  const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
  const std::size_t raw = (1 + std::to_integer<std::size_t>(input[1])) * layout.bytes;
  const Bytes blocks = unpack_blocks(input.subspan(2), raw, type, "x");
  if (blocks.size() != raw) differ("blocks were unpacked to another size");
  if (unpack_blocks(pack_blocks(blocks, type, 1), raw, type, "x") != blocks)
    differ("blocks that were read are written differently");
}

std::vector<Bytes> blocks_seeds() {
  std::vector<Bytes> seeds;
  const RandomStream random(2, "fuzz blocks");
  for (std::size_t t = 0; t < kBlockTypes.size(); ++t) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(kBlockTypes[t]);
    Bytes raw(200U * layout.bytes);
    for (std::size_t i = 0; i < raw.size(); ++i)
      raw[i] = static_cast<std::byte>(random.bits(i) & random.bits(i + raw.size()));
    Bytes seed = {static_cast<std::byte>(t), std::byte{199}};
    const Bytes packed = pack_blocks(raw, layout.type, 1);
    seed.insert(seed.end(), packed.begin(), packed.end());
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

/// Weights of one base for all inputs.
const Bytes& base_of_blocks() {
  static const Bytes base = [] {
    Bytes bytes;
    const RandomStream random(3, "fuzz base");
    for (std::size_t i = 0; i < 4096; ++i)
      append_number(bytes, static_cast<std::uint16_t>(0x3c00 + random.bits(i) % 0x0300 +
                                                      (random.bits(i + 4096) % 2 << 15)));
    return bytes;
  }();
  return base;
}

/// Type, then the section of blocks of that base.
void run_requantized(Input input) {
  if (input.size() < 2) return;
  const std::uint32_t type = kBlockTypes[std::to_integer<unsigned>(input[0]) % kBlockTypes.size()];
  const gguf::BlockLayout& layout = *gguf::find_block_layout(type);
  const std::size_t raw = 4096 / static_cast<std::size_t>(layout.weights()) * layout.bytes;
  const BaseValues base{base_of_blocks(), DType::kBF16};
  const Bytes blocks = unpack_requantized(input.subspan(1), type, base, raw, "x", 1);
  const auto again = pack_requantized(blocks, type, base, 1);
  if (!again || unpack_requantized(*again, type, base, raw, "x", 1) != blocks)
    differ("blocks of a base that were read are written differently");
}

std::vector<Bytes> requantized_seeds() {
  std::vector<Bytes> seeds;
  const BaseValues base{base_of_blocks(), DType::kBF16};
  for (std::size_t t = 0; t + 1 < kBlockTypes.size(); ++t) {
    const gguf::BlockLayout& layout = *gguf::find_block_layout(kBlockTypes[t]);
    const std::size_t raw = 4096 / static_cast<std::size_t>(layout.weights()) * layout.bytes;
    for (const unsigned form : {0u, 1u}) {
      const Bytes rule = {static_cast<std::byte>(0), static_cast<std::byte>(form)};
      Bytes blocks = unpack_requantized(rule, layout.type, base, raw, "x", 1);
      for (std::size_t i = 0; i < blocks.size(); i += form ? layout.bytes : blocks.size() / 3)
        blocks[i] ^= std::byte{2};
      Bytes seed = {static_cast<std::byte>(t)};
      const Bytes section = *pack_requantized(blocks, layout.type, base, 1);
      seed.insert(seed.end(), section.begin(), section.end());
      seeds.push_back(std::move(seed));
    }
  }
  return seeds;
}

/// Coding, tile side, hidden width, then the bytes of the parameters.
void run_theta(Input input) {
  if (input.size() < 3) return;
  const auto coding = static_cast<Coding>(std::to_integer<unsigned>(input[0]) % 3);
  const std::int64_t side = 1 + std::to_integer<unsigned>(input[1]) % 16;
  GNetSpec spec{.type_id = "linear", .shape = {side, side}, .tile_rows = side, .tile_cols = side};
  spec.hidden = {1 + std::to_integer<unsigned>(input[2]) % 32};
  const auto bytes = static_cast<std::size_t>(coded_bytes(spec, coding));
  Bytes stored(bytes);
  std::copy_n(input.begin() + 3, std::min(bytes, input.size() - 3), stored.begin());
  const auto theta = decode_theta(spec, coding, stored, "x");
  if (coding == Coding::kF32 && encode_theta(spec, coding, theta, "x") != stored)
    differ("fp32 parameters do not come back");
}

std::vector<Bytes> theta_seeds() {
  std::vector<Bytes> seeds;
  for (unsigned coding = 0; coding < 3; ++coding) {
    Bytes seed = {static_cast<std::byte>(coding), std::byte{3}, std::byte{4}};
    for (int i = 0; i < 64; ++i) append_number(seed, 0.25f * static_cast<float>(i));
    seeds.push_back(std::move(seed));
  }
  return seeds;
}

struct GridHead {
  IntegerGrid grid;
  std::vector<std::uint8_t> prior;
  bool twice = false;
};
constexpr std::size_t kGridHead = 8;
constexpr std::int64_t kMaxNumbers = 4096;  // more of them only take longer

/// Flags, rows and columns (2 bytes each), stride (2), count of tensors.
GridHead read_grid(Input input) {
  const auto number = [&](std::size_t at) {
    return std::to_integer<std::int64_t>(input[at]) +
           256 * std::to_integer<std::int64_t>(input[at + 1]);
  };
  const auto flags = std::to_integer<unsigned>(input[0]);
  GridHead head;
  head.grid.rows = 1 + number(1) % kMaxNumbers;
  head.grid.cols = 1 + number(3) % (kMaxNumbers / head.grid.rows);
  head.grid.stride = number(5) % head.grid.cols;
  head.grid.dependent = flags & 1;
  head.grid.wide = (flags & 2) && !head.grid.dependent;
  head.twice = flags & 8;
  if (flags & 4)
    for (std::int64_t i = 0; i < head.grid.size(); ++i)
      head.prior.push_back(static_cast<std::uint8_t>((i + flags) % 16));
  return head;
}

template <CodecProfile profile>
void fit_to(IntegerGrid& grid) {
  if (profile != CodecProfile::kSmall) grid.wide = false;
  grid.lanes = grid.dependent && profile == CodecProfile::kLanes;
}

std::vector<std::vector<std::int32_t>> read_tensors(CodecProfile profile, const GridHead& head,
                                                    Input input) {
  IntegerDecoder decoder(profile, input.subspan(kGridHead));
  std::vector<std::vector<std::int32_t>> tensors;
  for (int n = head.twice ? 2 : 1; n > 0; --n) {
    tensors.emplace_back(static_cast<std::size_t>(head.grid.size()));
    decoder.read(head.grid, tensors.back(), head.prior);
  }
  decoder.finish();
  return tensors;
}

/// The tensors, or nothing where they are refused.
std::optional<std::vector<std::vector<std::int32_t>>> outcome(const GridHead& head, Input input) {
  try {
    return read_tensors(CodecProfile::kLanes, head, input);
  } catch (const Error&) {
    return {};
  }
}

/// Every level of the processor says the same: the best one and another, by the last byte.
void compare_targets(Input input) {
  if (input.size() < kGridHead) return;
  GridHead head = read_grid(input);
  fit_to<CodecProfile::kLanes>(head.grid);
  const auto best = outcome(head, input);
  std::int64_t rest = hwy::SupportedTargets();
  for (unsigned n = 1 + std::to_integer<unsigned>(input.back()) % 4; n > 0 && (rest & (rest - 1));
       --n)
    rest &= rest - 1;
  hwy::SetSupportedTargetsForTest(rest);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  const auto other = outcome(head, input);
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  if (best != other) differ("processors decode a stream differently");
}

template <CodecProfile profile>
void run_integers(Input input) {
  if (input.size() < kGridHead) return;
  GridHead head = read_grid(input);
  fit_to<profile>(head.grid);
  const std::vector<std::vector<std::int32_t>> tensors = read_tensors(profile, head, input);
  // Tables are built anew for every coder, which takes longer than all else: one input in eight.
  if (std::to_integer<unsigned>(input.back()) % 8 != 0) return;
  IntegerEncoder encoder(profile);
  for (const auto& values : tensors) encoder.add(head.grid, values, head.prior);
  const std::vector<std::byte> stream = encoder.finish();
  IntegerDecoder again(profile, stream);
  std::vector<std::int32_t> values(static_cast<std::size_t>(head.grid.size()));
  for (const auto& expected : tensors) {
    again.read(head.grid, values, head.prior);
    if (values != expected) differ("integers that were decoded do not come back");
  }
  again.finish();
}

template <CodecProfile profile>
std::vector<Bytes> integer_seeds() {
  std::vector<Bytes> seeds;
  const RandomStream random(2, "fuzz integers");
  for (unsigned flags = 0; flags < 16; ++flags)
    for (const auto& [rows, cols, stride] : {std::array{3, 40, 7}, {60, 1, 0}, {1, 500, 28}}) {
      Bytes seed = {static_cast<std::byte>(flags)};
      for (const int n : {rows - 1, cols - 1, stride})
        append_number(seed, static_cast<std::uint16_t>(n));
      seed.push_back(std::byte{0});
      GridHead head = read_grid(seed);
      fit_to<profile>(head.grid);
      IntegerEncoder encoder(profile);
      std::vector<std::int32_t> values(static_cast<std::size_t>(head.grid.size()));
      for (int n = head.twice ? 2 : 1; n > 0; --n) {
        for (std::size_t i = 0; i < values.size(); ++i)
          values[i] = static_cast<std::int32_t>(random.bits(i) % (i % 11 ? 5 : 300)) - 2;
        encoder.add(head.grid, values, head.prior);
      }
      const auto stream = encoder.finish();
      seed.insert(seed.end(), stream.begin(), stream.end());
      seeds.push_back(std::move(seed));
    }
  return seeds;
}

void run_lanes(Input input) {
  compare_targets(input);
  run_integers<CodecProfile::kLanes>(input);
}

}  // namespace

const std::vector<Target> artifact_targets = {
    {"gbz", run_artifact, artifact_seeds, mutate_artifact, std::size_t{kLimits.output_bytes}},
    {"gbz_header", run_header, header_seeds},
    {"gbz_originals", run_originals, originals_seeds},
    {"gbz_packing", run_packing, packing_seeds},
    {"gbz_blocks", run_blocks, blocks_seeds},
    {"gbz_requantized", run_requantized, requantized_seeds},
    {"gbz_theta", run_theta, theta_seeds},
    {"integers_small", run_integers<CodecProfile::kSmall>, integer_seeds<CodecProfile::kSmall>},
    {"integers_lanes", run_lanes, integer_seeds<CodecProfile::kLanes>},
};

}  // namespace gbcompress::fuzz
