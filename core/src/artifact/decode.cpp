#include "gbcompress/decode.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "artifact/base_range.h"
#include "artifact/direct_values.h"
#include "artifact/draft_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/integers/transform.h"
#include "artifact/pieces.h"
#include "artifact/read_many.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/requantized.h"
#include "base/checked.h"
#include "base/fresh_memory.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

/// Ids and newest revisions of this project's layer types that have no build of their own.
constexpr std::array<std::pair<std::string_view, std::uint32_t>, 5> kPlacedTypes = {
    {{"linear", 1}, {"conv", 1}, {"attention", 1}, {"recurrent", 1}, {"embedding", 1}}};

/// The newest revision of the layer type, where it only places its tiles; else null.
const std::uint32_t* placed_revision(const ArtifactTensor& tensor) noexcept {
  if (tensor.spec.shape != tensor.shape) return nullptr;
  for (const auto& [id, revision] : kPlacedTypes)
    if (tensor.spec.type_id == id) return &revision;
  return nullptr;
}

/// Every tile by the exact kernel. Tiles do not know of each other: threads change no bit.
void generate_tiles(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> targets, int threads) {
  const auto kernel = make_reference_kernel();
  const auto parameters = static_cast<std::size_t>(shape.parameters());
  // Some for each thread, so that all end at about the same time.
  const std::size_t parts = std::min(targets.size(), 4 * static_cast<std::size_t>(threads));
  parallel_tasks(threads, static_cast<std::int64_t>(parts), [&](std::int64_t part) {
    const std::size_t first = targets.size() * static_cast<std::size_t>(part) / parts;
    const std::size_t count = targets.size() * static_cast<std::size_t>(part + 1) / parts - first;
    kernel->forward(shape, theta.subspan(first * parameters, count * parameters),
                    targets.subspan(first, count));
  });
}

std::vector<float> generate(const ArtifactReader& artifact, std::size_t tensor,
                            const TileBuilder& build, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const GNetSpec& spec = entry.spec;
  const TileGrid grid = spec.grid();
  const std::int64_t numbers =
      build ? checked_mul(grid.tiles(), grid.positions(), "the tiles") : grid.elements();
  std::vector<float> values(static_cast<std::size_t>(numbers));
  std::vector<TileTarget> targets;
  append_tiles(targets, grid, values.data(), static_cast<bool>(build), spec.output_scale);
  generate_tiles(bank_shape(spec), artifact.theta(tensor), targets, threads);
  return build ? build(entry, values) : values;
}

std::span<const std::byte> base_bytes(const ArtifactReader& artifact, const BaseRange& range,
                                      const BaseSource& base) {
  if (!base)
    throw Error(
        Errc::kUsage,
        "this file holds what changed since another model, its base, which has the digest " +
            artifact.bases()[range.base] + "; expand it together with that base");
  return base(range);
}

/// The bytes of a tensor in the base; of a file with layers, in its draft.
std::vector<std::byte> namesake_bytes(const ArtifactReader& artifact, std::size_t tensor,
                                      const BaseSource& base, int threads) {
  if (const DraftValues* draft = artifact.draft_values())
    return draft->decode(tensor, threads).take_bytes();
  const auto bytes = base_bytes(artifact, namesake_of(artifact.tensors()[tensor]), base);
  return {bytes.begin(), bytes.end()};
}

/// Of a tensor that is numbers: generated, coded or both.
std::vector<float> numbers(const ArtifactReader& artifact, std::size_t tensor,
                           const TileBuilder& build, const BaseSource& base, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  if (entry.kind == TensorKind::kQuantized) {
    std::vector<float> values = tensor_floats(artifact.coded(tensor), entry.shape);
    if (!optional_parts::kDeltas || !entry.on_base) return values;
    std::vector<float> before(values.size());
    floats_of(namesake_bytes(artifact, tensor, base, threads), entry.dtype, before);
    for (std::size_t n = 0; n < values.size(); ++n) values[n] += before[n];
    return values;
  }
  if (!optional_parts::kGnets) return {};
  std::vector<float> values = generate(artifact, tensor, build, threads);
  if (entry.kind == TensorKind::kPredicted) {
    const std::vector<float> more = coded_floats(artifact.coded(tensor));
    for (std::size_t n = 0; n < values.size(); ++n) values[n] += more[n];
  }
  return values;
}

std::vector<std::byte> repeat(const std::vector<std::byte>& element, std::int64_t count) {
  std::vector<std::byte> bytes;
  bytes.reserve(element.size() * static_cast<std::size_t>(count));
  for (std::int64_t n = 0; n < count; ++n)
    bytes.insert(bytes.end(), element.begin(), element.end());
  return bytes;
}

template <typename T>
std::vector<float> converted_whole(std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(T));
  for (std::size_t n = 0; n < values.size(); ++n) {
    T number;
    std::memcpy(&number, bytes.data() + n * sizeof number, sizeof number);
    values[n] = static_cast<float>(number);
  }
  return values;
}

std::vector<float> converted(std::span<const std::byte> bytes, DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kU8:
      return converted_whole<std::uint8_t>(bytes);
    case DType::kI8:
      return converted_whole<std::int8_t>(bytes);
    case DType::kU16:
      return converted_whole<std::uint16_t>(bytes);
    case DType::kI16:
      return converted_whole<std::int16_t>(bytes);
    case DType::kU32:
      return converted_whole<std::uint32_t>(bytes);
    case DType::kI32:
      return converted_whole<std::int32_t>(bytes);
    case DType::kU64:
      return converted_whole<std::uint64_t>(bytes);
    case DType::kI64:
      return converted_whole<std::int64_t>(bytes);
    default:
      break;
  }
  if (!is_real(dtype))
    throw Error(Errc::kUnsupported, "elements of type " + std::string(dtype_name(dtype)) +
                                        " are not converted to float32; take bytes()");
  std::vector<float> values(bytes.size() * 8 / static_cast<std::size_t>(dtype_bits(dtype)));
  floats_of(bytes, dtype, values);
  return values;
}

/// Straight from stripes.
DecodedTensor direct(const ArtifactReader& artifact, std::size_t tensor, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const DirectValues values(artifact, tensor);
  const auto size = static_cast<std::size_t>(checked_elements(entry.shape, "a tensor"));
  if (entry.dtype == DType::kF32) {
    std::vector<float> floats;
    resize_fresh(floats, size);
    values.read_all(entry.dtype, std::as_writable_bytes(std::span(floats)), threads);
    return DecodedTensor(std::move(floats));
  }
  std::vector<std::byte> elements;
  resize_fresh(elements, size * static_cast<std::size_t>(dtype_bits(entry.dtype) / 8));
  values.read_all(entry.dtype, elements, threads);
  return {entry.dtype, std::move(elements)};
}

DecodedTensor requantized(const ArtifactReader& artifact, std::size_t tensor,
                          const BaseSource& base, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  const auto bytes = base_bytes(artifact, source_of(entry), base);
  return {entry.dtype,
          unpack_requantized(artifact.change(tensor), entry.block_type, {bytes, entry.source.dtype},
                             static_cast<std::size_t>(tensor_bytes(entry.shape, entry.dtype)),
                             printable(entry.name), threads)};
}

/// Of an untied tensor.
DecodedTensor decode(const ArtifactReader& artifact, std::size_t tensor, const TileBuilder& build,
                     const BaseSource& base, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  if (optional_parts::kDeltas && entry.kind == TensorKind::kBase)
    return {entry.dtype, namesake_bytes(artifact, tensor, base, threads)};
  if (optional_parts::kDeltas && entry.kind == TensorKind::kChange) {
    std::vector<std::byte> elements = namesake_bytes(artifact, tensor, base, threads);
    apply_change(entry.dtype, entry.shape, artifact.change(tensor), elements);
    return {entry.dtype, std::move(elements)};
  }
  if (optional_parts::kPieces && entry.kind == TensorKind::kPieces)
    return {entry.dtype, join_pieces(artifact, tensor, [&](const BaseRange& range) {
              return base_bytes(artifact, range, base);
            })};
  if (optional_parts::kBlocks && entry.kind == TensorKind::kBlocks)
    return requantized(artifact, tensor, base, threads);
  if (entry.kind == TensorKind::kExact) return {entry.dtype, artifact.plain(tensor)};
  if (entry.kind == TensorKind::kConstant)
    return {entry.dtype,
            repeat(artifact.constant(tensor), checked_elements(entry.shape, "a tensor"))};
  if (entry.kind == TensorKind::kQuantized && (!is_real(entry.dtype) || entry.levels.used()))
    return {entry.dtype, coded_elements(artifact.coded(tensor), entry.dtype)};
  if (DirectValues::fits(artifact, tensor)) return direct(artifact, tensor, threads);
  std::vector<float> values = numbers(artifact, tensor, build, base, threads);
  if (entry.dtype == DType::kF32) return DecodedTensor(std::move(values));
  return {entry.dtype, elements_of(values, entry.dtype)};
}

TileBuilder builder_of(const ArtifactTensor& tensor, const DecodeOptions& options) {
  if (!has_spec(tensor.kind)) return {};
  return options.builder ? options.builder(tensor) : place_only(tensor);
}

int threads_of(const DecodeOptions& options) {
  return options.threads > 0 ? options.threads : usable_processors();
}

}  // namespace

bool is_placed(const ArtifactTensor& tensor) noexcept {
  const std::uint32_t* revision = placed_revision(tensor);
  return !has_spec(tensor.kind) || (revision && tensor.spec.type_revision <= *revision);
}

TileBuilder place_only(const ArtifactTensor& tensor) {
  if (!placed_revision(tensor))
    throw Error(Errc::kUnsupported, printable(tensor.name) + " is built by layer type " +
                                        printable(tensor.spec.type_id) +
                                        ", whose plugin is needed");
  return {};
}

std::vector<float> DecodedTensor::floats() const& {
  return values_.empty() ? converted(elements_, dtype_) : values_;
}

std::vector<float> DecodedTensor::floats() && {
  return values_.empty() ? converted(elements_, dtype_) : std::move(values_);
}

std::vector<std::byte> DecodedTensor::take_bytes() && {
  if (values_.empty()) return std::move(elements_);
  const auto all = bytes();
  return {all.begin(), all.end()};
}

DecodedTensor decode_elements(const ArtifactReader& artifact, std::size_t tensor,
                              const DecodeOptions& options) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  tensor = owner_of(artifact, tensor);
  DecodedTensor decoded = blame_damage(artifact, [&] {
    return decode(artifact, tensor, builder_of(tensors[tensor], options), options.base,
                  threads_of(options));
  });
  check_mapped_inputs();
  return decoded;
}

std::vector<std::byte> decode_tensor(const ArtifactReader& artifact, std::size_t tensor,
                                     const DecodeOptions& options) {
  return decode_elements(artifact, tensor, options).take_bytes();
}

}  // namespace gbcompress
