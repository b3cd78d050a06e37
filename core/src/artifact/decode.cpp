#include "gbcompress/decode.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "artifact/elements.h"
#include "artifact/header.h"
#include "artifact/lookahead.h"
#include "artifact/transform.h"
#include "base/checked.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "format/safetensors.h"
#include "format/safetensors_order.h"
#include "gbcompress/error.h"
#include "gnet/tile_memory.h"

namespace gbcompress {
namespace {

/// Ids and newest revisions of this project's layer types that have no build of their own.
constexpr std::array<std::pair<std::string_view, std::uint32_t>, 5> kPlacedTypes = {
    {{"linear", 1}, {"conv", 1}, {"attention", 1}, {"recurrent", 1}, {"embedding", 1}}};

/// The newest revision of the layer type, where it only places its tiles; else null.
const std::uint32_t* placed_revision(const ArtifactTensor& tensor) noexcept {
  if (tensor.plan.shape != tensor.shape) return nullptr;
  for (const auto& [id, revision] : kPlacedTypes)
    if (tensor.plan.type_id == id) return &revision;
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
  const GNetPlan& plan = entry.plan;
  const TileGrid grid = plan.grid();
  const std::int64_t numbers =
      build ? checked_mul(grid.tiles(), grid.positions(), "the tiles") : grid.elements();
  std::vector<float> values(static_cast<std::size_t>(numbers));
  std::vector<TileTarget> targets;
  append_tiles(targets, grid, values.data(), static_cast<bool>(build), plan.output_scale);
  generate_tiles(bank_shape(plan), artifact.theta(tensor), targets, threads);
  return build ? build(entry, values) : values;
}

using BaseSource = std::function<std::span<const std::byte>(const ArtifactTensor&)>;

std::span<const std::byte> base_bytes(const ArtifactReader& artifact, const ArtifactTensor& tensor,
                                      const BaseSource& base) {
  if (!base)
    throw Error(
        Errc::kUsage,
        "this file holds what changed since another model, its base, which has the digest " +
            artifact.base() + "; expand it together with that base");
  return base(tensor);
}

/// Of a tensor that is numbers: generated, coded or both.
std::vector<float> numbers(const ArtifactReader& artifact, std::size_t tensor,
                           const TileBuilder& build, const BaseSource& base, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  if (entry.kind == TensorKind::kCoded) {
    std::vector<float> values = tensor_floats(artifact.coded(tensor), entry.shape);
    if (!entry.on_base) return values;
    std::vector<float> before(values.size());
    floats_of(base_bytes(artifact, entry, base), entry.dtype, before);
    for (std::size_t n = 0; n < values.size(); ++n) values[n] += before[n];
    return values;
  }
  std::vector<float> values = generate(artifact, tensor, build, threads);
  if (entry.kind == TensorKind::kResidual) {
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

/// Of tensors that are decoded ahead of the one that is written.
constexpr std::int64_t kAheadBytes = std::int64_t{128} << 20;

/// Of an untied tensor.
DecodedTensor decode(const ArtifactReader& artifact, std::size_t tensor, const TileBuilder& build,
                     const BaseSource& base, int threads) {
  const ArtifactTensor& entry = artifact.tensors()[tensor];
  if (entry.kind == TensorKind::kBase) {
    const auto bytes = base_bytes(artifact, entry, base);
    return {{}, {bytes.begin(), bytes.end()}};
  }
  if (entry.kind == TensorKind::kPlain) return {{}, artifact.plain(tensor)};
  if (entry.kind == TensorKind::kConstant)
    return {{}, repeat(artifact.constant(tensor), checked_elements(entry.shape, "a tensor"))};
  if (entry.kind == TensorKind::kCoded && !is_real(entry.dtype))
    return {{}, coded_elements(artifact.coded(tensor), entry.dtype)};
  std::vector<float> values = numbers(artifact, tensor, build, base, threads);
  if (entry.dtype == DType::kF32) return {std::move(values), {}};
  return {{}, elements_of(values, entry.dtype)};
}

TileBuilder builder_of(const ArtifactTensor& tensor, const DecodeOptions& options) {
  if (!has_plan(tensor.kind)) return {};
  return options.builder ? options.builder(tensor) : place_only(tensor);
}

int threads_of(const DecodeOptions& options) {
  return options.threads > 0 ? options.threads : usable_processors();
}

}  // namespace

bool is_placed(const ArtifactTensor& tensor) noexcept {
  const std::uint32_t* revision = placed_revision(tensor);
  return !has_plan(tensor.kind) || (revision && tensor.plan.type_revision <= *revision);
}

TileBuilder place_only(const ArtifactTensor& tensor) {
  if (!placed_revision(tensor))
    throw Error(Errc::kUnsupported, printable(tensor.name) + " is built by layer type " +
                                        printable(tensor.plan.type_id) +
                                        ", whose plugin is needed");
  return {};
}

DecodedTensor decode_elements(const ArtifactReader& artifact, std::size_t tensor,
                              const DecodeOptions& options) {
  const auto& tensors = artifact.tensors();
  if (tensor >= tensors.size()) throw Error(Errc::kUsage, "there is no such tensor");
  if (tensors[tensor].kind == TensorKind::kTied)
    for (std::size_t i = 0; i < tensors.size(); ++i)
      if (tensors[i].name == tensors[tensor].tied_to) return decode_elements(artifact, i, options);
  DecodedTensor decoded = decode(artifact, tensor, builder_of(tensors[tensor], options),
                                 options.base, threads_of(options));
  check_mapped_inputs();
  return decoded;
}

std::vector<std::byte> decode_tensor(const ArtifactReader& artifact, std::size_t tensor,
                                     const DecodeOptions& options) {
  DecodedTensor decoded = decode_elements(artifact, tensor, options);
  if (decoded.floats.empty()) return std::move(decoded.others);
  const auto bytes = decoded.bytes();
  return {bytes.begin(), bytes.end()};
}

std::int64_t decode_to_file(const ArtifactReader& artifact, const std::filesystem::path& output,
                            bool overwrite, const DecodeOptions& options) {
  const auto& tensors = artifact.tensors();
  // All types first, so that a missing plugin is told before any work.
  std::vector<TileBuilder> builders;
  std::vector<TensorEntry> entries;
  std::map<std::string_view, std::size_t> index;
  for (const ArtifactTensor& tensor : tensors) {
    builders.push_back(builder_of(tensor, options));
    index[tensor.name] = entries.size();
    entries.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
  }
  const int threads = threads_of(options);
  // G-nets of one tensor are made on all threads, and the profile small is one stream.
  const bool apart = artifact.profile() == CodecProfile::kFast &&
                     std::none_of(tensors.begin(), tensors.end(), [](const ArtifactTensor& tensor) {
                       return has_plan(tensor.kind);
                     });
  const std::vector<std::size_t> order = file_order(entries);
  std::vector<std::int64_t> sizes;
  for (const std::size_t i : order)
    sizes.push_back(tensor_bytes(tensors[i].shape, tensors[i].dtype));
  const auto make = [&](std::size_t i) {
    const bool tied = tensors[i].kind == TensorKind::kTied;
    const std::size_t own = tied ? index.at(tensors[i].tied_to) : i;
    return decode(artifact, own, builders[own], options.base, apart ? 1 : threads);
  };
  std::optional<Lookahead<DecodedTensor>> ahead;
  if (apart && threads > 1)
    ahead.emplace(threads, std::move(sizes), kAheadBytes,
                  [&](std::size_t n) { return make(order[n]); });
  DecodedTensor current;
  const TensorBytes source = [&](std::size_t i) {
    throw_if_interrupted();
    current = {};  // before the next one
    current = ahead ? ahead->next() : make(i);
    return current.bytes();
  };
  return write_safetensors(output, entries, {{"format", "pt"}}, overwrite, source);
}

}  // namespace gbcompress
