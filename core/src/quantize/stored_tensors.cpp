// How the tensors of a file are stored, and their errors.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <string_view>
#include <unordered_map>

#include "artifact/direct_values.h"
#include "artifact/file_digest.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "artifact/read_many.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/planes.h"
#include "base/checked.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/weights.h"
#include "quantize/allocation/bit_allocation.h"
#include "quantize/change.h"

namespace gbcompress {
namespace {

/// Below this share of its energy a tensor is named in a warning.
constexpr double kLeastEnergy = 0.5;
constexpr std::size_t kNamed = 3;

std::string stored_as(const ArtifactTensor& tensor) {
  switch (tensor.kind) {
    case TensorKind::kTied:
      return "tied";
    case TensorKind::kConstant:
      return "constant";
    case TensorKind::kExact:
      return "exact";
    case TensorKind::kGenerated:
      return "g-nets";
    case TensorKind::kPredicted:
      return "g-nets and integers";
    case TensorKind::kQuantized:
      return !is_real(tensor.dtype)     ? "exact"
             : tensor.levels.used()     ? "levels"
             : tensor.mantissa_bits > 0 ? "short floats"
             : tensor.on_base           ? "base and integers"
                                        : "integers";
    case TensorKind::kBase:
      return "as in the base";
    case TensorKind::kChange:
      return "base and exact change";
    case TensorKind::kPieces:
      return "pieces";
    case TensorKind::kBlocks:
      return "quantized base";
  }
  return "";
}

bool has_integers(const ArtifactTensor& tensor) {
  return tensor.kind == TensorKind::kQuantized || tensor.kind == TensorKind::kPredicted ||
         (tensor.kind == TensorKind::kGenerated && tensor.coding == Coding::kCoded);
}

/// Of values and what they decode to.
struct Sums {
  double error = 0, kept = 0, had = 0;  ///< of squares
  bool same = true;

  void add(const Sums& other) {
    error += other.error;
    kept += other.kept;
    had += other.had;
    same = same && other.same;
  }
};

/// Several sums side by side: one would wait for itself.
Sums sums_of(std::span<const float> before, std::span<const float> after) {
  constexpr std::size_t kSums = 8;
  double error[kSums] = {}, kept[kSums] = {}, had[kSums] = {};
  const auto add = [&](std::size_t i, std::size_t k) {
    const auto a = static_cast<double>(before[i]), b = static_cast<double>(after[i]);
    error[k] += (b - a) * (b - a);
    kept[k] += b * b;
    had[k] += a * a;
  };
  std::size_t i = 0;
  for (; i + kSums <= before.size(); i += kSums)
    for (std::size_t k = 0; k < kSums; ++k) add(i + k, k);
  for (; i < before.size(); ++i) add(i, 0);
  Sums sums;
  for (std::size_t k = 0; k < kSums; ++k) sums.add({error[k], kept[k], had[k]});
  return sums;
}

/// Values that are compared at a time: they stay in the first caches.
constexpr std::size_t kInCache = 2048;

/// Of elements of a real type.
Sums compared(DType dtype, std::span<const std::byte> source, std::span<const std::byte> decoded) {
  Sums sums{.same = std::equal(decoded.begin(), decoded.end(), source.begin(), source.end())};
  const auto size = static_cast<std::size_t>(dtype_bits(dtype)) / 8;
  std::array<float, kInCache> before, after;
  for (std::size_t first = 0; first < source.size(); first += kInCache * size) {
    const std::size_t bytes = std::min(kInCache * size, source.size() - first);
    const std::span<float> a(before.data(), bytes / size), b(after.data(), bytes / size);
    floats_of(source.subspan(first, bytes), dtype, a);
    floats_of(decoded.subspan(first, bytes), dtype, b);
    sums.add(sums_of(a, b));
  }
  check_mapped(source);
  return sums;
}

void set_error(StoredTensor& stored, const Sums& sums) {
  if (sums.same) return;
  stored.error = sums.had > 0 ? sums.error / sums.had : sums.error > 0 ? 1 : 0;
  stored.energy = sums.had > 0 ? sums.kept / sums.had : 1;
  stored.squares = sums.had;
}

/// Sets the errors of a tensor that decodes to these bytes.
void compare(StoredTensor& stored, const TensorEntry& source, std::span<const std::byte> decoded,
             const TensorEntry* base) {
  stored.compared = true;
  if (base && is_real(source.dtype) && is_finite(*base) && is_finite(source)) {
    const ChangeSums sums = change_sums(source, *base, decoded);
    stored.in_base = true;
    stored.change_error = sums.relative();
    stored.change = sums.change;
  }
  if (std::equal(decoded.begin(), decoded.end(), source.bytes.begin(), source.bytes.end())) return;
  stored.error = 1;
  stored.energy = 0;
  if (!is_real(source.dtype) || source.dtype != stored.dtype || source.shape != stored.shape)
    return;
  set_error(stored, compared(source.dtype, source.bytes, decoded));
}

/// The same of a tensor whose values are in stripes: one part after another is decoded and
/// compared, so that no more is in memory.
void compare_parts(const ArtifactReader& artifact, std::size_t i, const TensorEntry& source,
                   int threads, StoredTensor& stored) {
  const DirectValues values(artifact, i);
  const auto size = static_cast<std::size_t>(dtype_bits(source.dtype)) / 8;
  std::vector<Sums> sums(values.parts().size());
  std::vector<double> seconds(sums.size());
  parallel_tasks(threads, static_cast<std::int64_t>(sums.size()), [&](std::int64_t n) {
    const auto at = static_cast<std::size_t>(n);
    const LanesPart& part = values.parts()[at];
    std::vector<std::byte> decoded(static_cast<std::size_t>(part.size) * size);
    const auto start = std::chrono::steady_clock::now();
    values.read(at, source.dtype, decoded);
    seconds[at] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    const auto bytes =
        source.bytes.subspan(static_cast<std::size_t>(part.first) * size, decoded.size());
    sums[at] = is_real(source.dtype)
                   ? compared(source.dtype, bytes, decoded)
                   : Sums{.same = std::equal(decoded.begin(), decoded.end(), bytes.begin())};
    release_pages(bytes);
  });
  check_mapped_inputs();
  Sums all;
  for (const Sums& each : sums) all.add(each);
  const auto side_by_side = static_cast<double>(
      std::clamp<std::size_t>(sums.size(), 1, static_cast<std::size_t>(threads)));
  stored.compared = true;
  stored.seconds = std::accumulate(seconds.begin(), seconds.end(), 0.0) / side_by_side;
  if (is_real(source.dtype)) return set_error(stored, all);
  stored.error = all.same ? 0 : 1;
  stored.energy = all.same ? 1 : 0;
}

/// Whether an exact tensor equals the source, decoded stripe by stripe instead of as a whole.
bool has_same_stripes(const ArtifactReader& artifact, std::size_t tensor, const TensorEntry& source,
                      int threads) {
  const ArtifactTensor& stored = artifact.tensors()[tensor];
  const auto planes = artifact.planes(tensor);
  if (!planes || stored.dtype != source.dtype || stored.shape != source.shape) return false;
  std::atomic<bool> same = true;
  const auto stripes = static_cast<std::int64_t>(planes->stripes());
  const std::int64_t parts = std::min<std::int64_t>(threads, stripes);
  parallel_tasks(threads, parts, [&](std::int64_t part) {
    std::vector<std::byte> buffer(2 * kPlaneStripe);
    const auto scratch = std::span(buffer).subspan(kPlaneStripe);
    for (std::int64_t i = part; i < stripes && same; i += parts) {
      const auto stripe = static_cast<std::size_t>(i);
      const auto decoded = std::span(buffer).first(planes->bytes_of(stripe));
      planes->read(stripe, decoded, scratch);
      artifact.keep_up(planes->stored(stripe).size());
      const auto given = source.bytes.subspan(stripe * kPlaneStripe, decoded.size());
      if (std::memcmp(decoded.data(), given.data(), given.size()) != 0) same = false;
      release_pages(given);
      release_pages(planes->stored(stripe));
    }
  });
  return same;
}

}  // namespace

std::int64_t StoredTensor::elements() const noexcept {
  std::int64_t n = 1;
  for (const std::int64_t side : shape) n *= side;
  return n;
}

std::vector<StoredTensor> stored_tensors(const ArtifactReader& artifact) {
  std::vector<StoredTensor> result;
  const std::vector<double> bits = artifact.tensor_bits();
  for (const ArtifactTensor& tensor : artifact.tensors()) {
    StoredTensor stored{.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape};
    stored.stored = stored_as(tensor);
    if (stored.stored.ends_with("integers")) {
      stored.step = static_cast<double>(step_size(tensor.step));
      stored.row_steps = tensor.row_steps;
    }
    if (has_integers(tensor)) stored.profile = profile_name(tensor.profile);
    stored.bytes = bits[result.size()] / 8;
    result.push_back(std::move(stored));
  }
  return result;
}

namespace {

/// The base that a tensor refers to; of others the first one.
const BaseModel* base_of(const ArtifactReader& artifact, std::size_t i,
                         std::span<const BaseModel> bases) {
  const ArtifactTensor& tensor = artifact.tensors()[i];
  if (bases.empty() || !has_namesake(tensor)) return bases.empty() ? nullptr : bases.data();
  return &*std::ranges::find(bases, artifact.bases()[tensor.base], &BaseModel::digest);
}

}  // namespace

std::vector<StoredTensor> compare_with_source(const ArtifactReader& artifact,
                                              const TensorBundle& weights,
                                              const TensorDecoder& decode,
                                              std::span<const BaseModel> bases) {
  std::vector<StoredTensor> result = stored_tensors(artifact);
  std::unordered_map<std::string_view, const TensorEntry*> sources;
  for (const TensorEntry& tensor : weights.tensors) sources[tensor.name] = &tensor;
  std::vector<std::int64_t> sizes;
  for (const ArtifactTensor& tensor : artifact.tensors())
    sizes.push_back(checked_elements(tensor.shape, "a tensor"));
  BaseSource base;
  if (!decode && !bases.empty()) base = base_source(artifact, bases);
  const auto compare_one = [&](std::size_t i, int threads) {
    const auto source = sources.find(result[i].name);
    if (source == sources.end()) return;
    const TensorEntry* before = entry_before(base_of(artifact, i, bases), *source->second);
    // Of a tie the error of its change differs from that of the tensor it is tied to.
    if (result[i].stored == "tied" && !before) {
      result[i].compared = true;
      return;
    }
    const TensorEntry& own = *source->second;
    if (!decode && !before && DirectValues::fits(artifact, i) && own.dtype == result[i].dtype &&
        own.shape == result[i].shape) {
      compare_parts(artifact, i, own, threads, result[i]);
      for (const auto& bytes : artifact.lanes()->bytes_of(i)) release_pages(bytes);
      return;
    }
    const auto start = std::chrono::steady_clock::now();
    if (!decode && !before && has_same_stripes(artifact, i, *source->second, threads)) {
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
      result[i].compared = true;
      result[i].seconds = took.count();
      release_pages(source->second->bytes);
      return;
    }
    const std::vector<std::byte> decoded =
        decode ? decode(i) : decode_tensor(artifact, i, {.base = base, .threads = threads});
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    result[i].seconds = took.count();
    compare(result[i], *source->second, decoded, before);
    release_pages(source->second->bytes);
    if (!in_stripes(artifact.tensors()[i])) return;
    for (const auto& bytes : artifact.lanes()->bytes_of(i)) release_pages(bytes);
  };
  // The profile small is one stream, which is decoded in order.
  const bool ordered = !decodes_apart(artifact);
  blame_damage(artifact,
               [&] { for_bounded(sizes, ordered ? 1 : usable_processors(), compare_one); });
  return result;
}

std::string lost_energy_warning(const std::vector<StoredTensor>& tensors) {
  std::vector<const StoredTensor*> worst;
  for (const StoredTensor& tensor : tensors)
    if (tensor.energy < kLeastEnergy) worst.push_back(&tensor);
  if (worst.empty()) return "";
  std::stable_sort(worst.begin(), worst.end(),
                   [](const auto* a, const auto* b) { return a->energy < b->energy; });
  std::string text = "warning: " + std::to_string(worst.size()) + " of " +
                     std::to_string(tensors.size()) +
                     " tensors keep less than half of their energy (sum of squares):";
  for (std::size_t i = 0; i < std::min(kNamed, worst.size()); ++i) {
    char kept[40];
    std::snprintf(kept, sizeof kept, " keeps %.0f %%", 100 * worst[i]->energy);
    text += (i > 0 ? ", " : " ") + printable(worst[i]->name) + kept;
  }
  return text + (worst.size() > kNamed ? ", ..." : "");
}

}  // namespace gbcompress
