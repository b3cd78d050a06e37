#include <algorithm>
#include <cmath>
#include <cstdio>
#include <future>
#include <memory>
#include <numeric>

#include "artifact/block_source.h"
#include "artifact/header/header.h"
#include "artifact/originals.h"
#include "artifact/relatives.h"
#include "artifact/safetensors_shards.h"
#include "base/checked.h"
#include "base/file.h"
#include "format/container.h"
#include "format/tensor_bundle.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "quantize/change.h"
#include "quantize/encode_weights.h"
#include "quantize/store.h"
#include "search/bracket_search.h"
#include "search/size_search.h"

namespace gbcompress {
namespace {

/// Files that are smaller than this many times their settings go without those.
constexpr std::int64_t kSettingsShare = 200;
/// Whole files made for one size, where numbers are few and where they are many; and walks through
/// the model.
constexpr int kMostFiles = 8, kMostLargeFiles = 3, kMostWalks = 4;
/// Where a size takes an error: the largest over the smallest that is tried, and how often.
constexpr double kErrorRange = 16;
constexpr int kErrorTries = 5;
/// Steps of all tensors together are found at this resolution, of octaves.
constexpr double kTotalResolution = 1.0 / 64;
/// A base that holds less than this share of the tensors' bytes saves nothing worth its name.
constexpr double kWorthABase = 0.01;

void check(const WeightsOptions& options) {
  if (options.max_bytes && options.max_error)
    throw Error(Errc::kUsage, "`max_bytes` contradicts `max_error`; give one of both");
  if (options.max_bytes && *options.max_bytes < 1)
    throw Error(Errc::kUsage, "`max_bytes` must be at least 1");
  if (options.max_error && !(*options.max_error > 0 && *options.max_error < 1))
    throw Error(Errc::kUsage, "`max_error` must be above 0 and below 1");
  if (options.statistics &&
      (!options.max_bytes || options.base() || options.measure == ErrorMeasure::kTotal))
    throw Error(Errc::kUsage,
                "statistics need a size as target (`max_bytes` or `ratio`), and no base; an error "
                "bounds each tensor whatever the statistics say");
  if (options.sequential && !options.statistics)
    throw Error(Errc::kUsage, "quantization layer by layer needs statistics");
  if (!options.targets.empty() && (options.base() || options.measure == ErrorMeasure::kTotal))
    throw Error(Errc::kUsage,
                "single tensors have their own size or error where errors are relative, and "
                "without a base");
  for (const TensorTarget& target : options.targets)
    if (target.bits.has_value() == target.max_error.has_value() || !(target.bits.value_or(1) > 0) ||
        !(target.max_error.value_or(0.5) > 0 && target.max_error.value_or(0.5) < 1))
      throw Error(Errc::kUsage, printable(target.match) +
                                    ": give `bits` above 0, or `max_error` above 0 and below 1");
  if (options.base() && options.measure == ErrorMeasure::kTotal)
    throw Error(Errc::kUsage,
                "what changed since a base is measured tensor by tensor; leave the "
                "measure relative");
}

/// Whether something of a base makes a tensor.
bool has_base(const TensorMatch& match) {
  return match.namesake || match.blocks ||
         std::ranges::any_of(match.pieces, [](const TensorPiece& piece) {
           return piece.source == TensorPiece::Source::kBase;
         });
}

/// "F32 [300, 784]"
std::string form_of(const TensorEntry& tensor) {
  std::string text(dtype_name(tensor.dtype));
  text += " [";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i)
    text += (i > 0 ? ", " : "") + std::to_string(tensor.shape[i]);
  return text + "]";
}

/// Refuses a base that is another model: no tensor of it has a counterpart here.
void check_base(const TensorBundle& weights, const BaseModel& base, const WeightsOptions& options) {
  const TensorEntry* other = nullptr;
  for (const TensorEntry& tensor : weights.tensors) {
    if (entry_before(&base, tensor) || block_source(&base, tensor)) return;
    if (!other && base.find(tensor.name)) other = &tensor;
  }
  if (is_exact(options)) {  // or one of another name or height
    const TensorFinder finder({&base, 1});
    if (std::ranges::any_of(weights.tensors, [&](const TensorEntry& tensor) {
          return has_base(finder.find(tensor));
        }))
      return;
  }
  if (other)
    throw Error(
        Errc::kShapeMismatch,
        "no tensor has the type and shape that it has in the base: " + printable(other->name) +
            " is " + form_of(*other) + ", and " + form_of(*base.find(other->name)) +
            " in the base; name the model that this one was made from");
  if (!weights.tensors.empty())
    throw Error(Errc::kUsage,
                "the base has no tensor of this model; name the model that this one "
                "was made from");
}

void check_bases(const TensorBundle& weights, const WeightsOptions& options) {
  if (options.bases.size() > 1 && !is_exact(options))
    throw Error(Errc::kUsage,
                "several bases need exact values; leave out sizes and errors, or give one base");
  for (const BaseModel& base : options.bases) check_base(weights, base, options);
}

/// Names what the base has in another form and is stored whole, or in pieces of the base; "" where
/// there is nothing.
std::string resized_note(const TensorBundle& weights, const ArtifactReader& artifact,
                         const BaseModel& base, bool in_pieces) {
  constexpr std::size_t kShown = 8;
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
    const TensorEntry& tensor = weights.tensors[i];
    const TensorEntry* before = base.find(tensor.name);
    if (!before || entry_before(&base, tensor) || block_source(&base, tensor) ||
        needs_base(artifact.tensors()[i]) != in_pieces)
      continue;
    if (++count > kShown) continue;
    names += (count > 1 ? ", " : "") + printable(tensor.name) + " (" + form_of(tensor) + ", " +
             form_of(*before) + " in the base)";
  }
  if (count == 0) return "";
  if (count > kShown) names += " and " + std::to_string(count - kShown) + " more";
  return std::string("stored ") + (in_pieces ? "in pieces of the base" : "whole") +
         ", because the base has another type or shape: " + names;
}

std::string kept_settings(const TensorBundle& weights, const WeightsOptions& options) {
  if (options.keep_settings) return options.settings;
  std::int64_t bytes = options.max_bytes.value_or(0);
  if (bytes == 0)
    for (const TensorEntry& tensor : weights.tensors)
      bytes += static_cast<std::int64_t>(tensor.bytes.size());
  const auto settings = static_cast<std::int64_t>(options.settings.size());
  return bytes < kSettingsShare * settings ? "" : options.settings;
}

/// The estimated place of the target size, from samples.
/// @param factor  actual bytes of matrices over the estimate
double expected_place(const BitAllocation& allocation, std::int64_t left, double factor) {
  const double numbers = static_cast<double>(allocation.matrix_numbers());
  SizeSearch search(left, allocation.matrix_numbers(), allocation.lowest(), allocation.highest());
  double x = allocation.start(8 * static_cast<double>(left) / numbers);
  while (const auto next = search.next(x)) {
    x = *next;
    const std::vector<double> bytes = allocation.expected_bytes(x);
    search.tried(x, std::llround(factor * std::accumulate(bytes.begin(), bytes.end(), 0.0)));
  }
  return search.best().value_or(allocation.highest());
}

/// The same, corrected with some of the matrices where encoding all of them takes long: estimates
/// from samples are one to two percent too large.
double expected_place(const BitAllocation& allocation, WeightsStore& store, std::int64_t wanted) {
  const std::int64_t left = std::max<std::int64_t>(wanted - store.size(), 1);
  const double x = expected_place(allocation, left, 1);
  if (!takes_long(allocation)) return x;
  const std::optional<double> factor = store.trial(x);
  return factor ? expected_place(allocation, left, *factor) : x;
}

/// Whether single matrices take what steps of all of them leave of a size.
bool is_filled(const BitAllocation& allocation, const WeightsOptions& options) {
  return options.max_bytes && takes_long(allocation) && !options.sequential;
}

SizeRule rule_of(const BitAllocation& allocation, const WeightsOptions& options) {
  if (is_filled(allocation, options))
    return {.tries = kMostLargeFiles, .enough = 0.98, .aim = 0.992};
  const int most = takes_long(allocation) ? kMostLargeFiles : kMostFiles;
  return {.tries = options.sequential ? std::min(most, kMostWalks) : most};
}

/// The finest step sizes whose file has the target size, or the coarsest allowed. @return these
double place_size(const BitAllocation& allocation, WeightsStore& store, std::int64_t wanted,
                  double start, const SizeRule& rule) {
  const std::int64_t numbers = allocation.matrix_numbers();
  SizeSearch search(wanted, numbers, allocation.lowest(), allocation.highest(), rule);
  double last = NAN;
  while (const auto x = search.next(start)) {
    const std::int64_t bytes = store.place(last = *x);
    search.tried(*x, bytes);
  }
  const double best = search.best().value_or(allocation.highest());
  if (best != last) store.place(best);
  return best;
}

/// The coarsest steps at which the error of all tensors together is at most that.
void place_total_error(const BitAllocation& allocation, WeightsStore& store, double most) {
  BracketSearch search(
      {.cuts = kMostFiles + 2, .resolution = kTotalResolution},
      {.holds = allocation.lowest(), .fails = allocation.highest() + kTotalResolution});
  double guess = allocation.start(-std::log2(most) / 2);
  while (const auto x = search.next(guess)) {
    const double error = store.total_error(*x);
    search.tried(*x, error <= most);
    // The step before the next one that would fail: errors are known to some thousandths.
    const double octaves = std::log2(most / std::max(error, 1e-30)) / 2;
    guess = *x + (octaves > 0 ? std::max(octaves - kTotalResolution / 4, kTotalResolution)
                              : std::min(octaves, -kTotalResolution));
  }
  store.place_total(*search.holds(), most);
}

/// Of the tensors that have an error, all together.
double total_error(const std::vector<StoredTensor>& tensors) {
  double error = 0, squares = 0;
  for (const StoredTensor& stored : tensors) {
    if (stored.stored == "tied" || stored.error == 0) continue;
    error += stored.error * stored.squares;
    squares += stored.squares;
  }
  return squares > 0 ? error / squares : 0;
}

/// Of the tensor's bytes those that are in a base, or the change since it.
std::int64_t bytes_since_bases(const ArtifactTensor& tensor) {
  std::int64_t elements = has_source(tensor) ? tensor_elements(tensor.shape) : 0;
  for (const TensorPiece& piece : tensor.pieces)
    if (piece.source == TensorPiece::Source::kBase) elements += piece.elements;
  return elements * dtype_bits(tensor.dtype) / 8;
}

/// What the bases are worth.
void count_base(WeightsReport& report, const ArtifactReader& artifact) {
  double error = 0, change = 0;
  std::int64_t all = 0, of_base = 0;  // bytes
  for (std::size_t i = 0; i < report.tensors.size(); ++i) {
    const StoredTensor& stored = report.tensors[i];
    const ArtifactTensor& tensor = artifact.tensors()[i];
    error += stored.change_error * stored.change;
    change += stored.change;
    report.unchanged += tensor.kind == TensorKind::kBase;
    if (tensor.kind != TensorKind::kTied)
      all += tensor_elements(tensor.shape) * dtype_bits(tensor.dtype) / 8;
    of_base += bytes_since_bases(tensor);
  }
  report.change_error = change > 0 ? error / change : 0;
  const auto count = static_cast<std::int64_t>(report.tensors.size());
  if (report.unchanged == count)
    report.notes.emplace_back("the change is empty: the base has every tensor bit for bit");
  else if (static_cast<double>(of_base) < kWorthABase * static_cast<double>(all))
    report.notes.push_back(
        "the base saves nothing: " + std::to_string(report.unchanged) + " of " +
        std::to_string(count) +
        " tensors are bit for bit in it, and the others are stored whole, which is smaller");
}

/// "; tensor w has the largest relative squared error, 0.31", as the expanded file has it.
std::string worst_tensor(const WeightsReport& report) {
  const StoredTensor* worst = nullptr;
  for (const StoredTensor& tensor : report.tensors)
    if (tensor.stored != "tied" && tensor.error > 0 && (!worst || tensor.error > worst->error))
      worst = &tensor;
  if (!worst) return "";
  char text[40];
  std::snprintf(text, sizeof text, ", %.2g", worst->error);
  return "; tensor " + printable(worst->name) + " has the largest relative squared error" + text;
}

void check_target(WeightsReport& report, const WeightsOptions& options) {
  char text[200];
  if (report.parameters == 0) return;  // no step size changes the size of such a file
  if (options.max_bytes && report.output_bytes > *options.max_bytes) {
    report.target_met = false;
    report.target_note =
        "the target is " + std::to_string(*options.max_bytes) + " bytes, and the file has " +
        std::to_string(report.output_bytes) +
        (options.statistics ? ", the smallest in which no row is worse than zeros"
                            : ", the smallest that keeps half of the squares of every row") +
        worst_tensor(report);
  }
  if (!options.max_error) return;
  double worst = options.measure == ErrorMeasure::kTotal ? report.total_error : 0;
  if (options.measure == ErrorMeasure::kRelative)
    for (const StoredTensor& tensor : report.tensors)
      if (!target_of(options, tensor.name))
        worst = std::max(worst, tensor.in_base ? tensor.change_error : tensor.error);
  if (worst <= *options.max_error) return;
  report.target_met = false;
  std::snprintf(text, sizeof text, "the target error is %g, and the file has %.3g",
                *options.max_error, worst);
  report.target_note = text;
}

/// What was to be kept exactly is. @throws Error(kFailure)
void check_exact(const ArtifactReader& artifact, const TensorBundle& weights,
                 const std::vector<StoredTensor>& tensors) {
  check_mapped_inputs();
  for (const StoredTensor& tensor : tensors)
    if (tensor.error > 0)
      throw Error(Errc::kFailure, "tensor " + printable(tensor.name) +
                                      " would not come back bit for bit, and nothing was written; "
                                      "compress the model again while nothing changes it, or "
                                      "report it");
  check_originals(artifact, weights);
}

/// What the file has: its size, and each tensor beside the source.
WeightsReport measure(const ArtifactReader& artifact, const TensorBundle& weights,
                      const WeightsOptions& options) {
  WeightsReport report;
  report.output_bytes = artifact.file_bytes();
  report.tensors = compare_with_source(artifact, weights, {}, options.bases);
  report.identity = artifact.identity();
  report.digest = artifact.digest();
  if (is_exact(options)) check_exact(artifact, weights, report.tensors);
  if (options.base()) {
    count_base(report, artifact);
    for (const bool in_pieces : {true, false})
      if (std::string note = resized_note(weights, artifact, *options.base(), in_pieces);
          !note.empty())
        report.notes.push_back(std::move(note));
  }
  for (const StoredTensor& tensor : report.tensors)
    if (tensor.stored != "tied" && tensor.name != kContainerName)
      report.parameters += tensor.elements();
  report.total_error = total_error(report.tensors);
  check_target(report, options);
  return report;
}

void place_error(const BitAllocation& allocation, WeightsStore& store,
                 const WeightsOptions& options) {
  if (options.measure == ErrorMeasure::kTotal)
    place_total_error(allocation, store, *options.max_error);
  else
    store.place_error(*options.max_error);
}

/// Integers of all matrices, for the target. @return the steps that have about the size, if one is
/// asked
double place_steps(const BitAllocation& allocation, WeightsStore& store,
                   const WeightsOptions& options) {
  const SizeRule rule = rule_of(allocation, options);
  double x = 0;
  if (allocation.matrix_numbers() == 0) return x;
  if (options.max_bytes)
    x = place_size(
        allocation, store, *options.max_bytes,
        options.steps ? *options.steps : expected_place(allocation, store, *options.max_bytes),
        rule);
  else
    place_error(allocation, store, options);
  if (!options.small_where_it_pays || allocation.profile() != CodecProfile::kLanes) return x;
  const double saved = store.choose_profiles();
  if (saved <= 0) return x;
  // Bits that are free: an octave of steps is worth one of every weight.
  const double bits = 8 * saved / static_cast<double>(allocation.matrix_numbers());
  if (options.max_bytes) return place_size(allocation, store, *options.max_bytes, x - bits, rule);
  place_error(allocation, store, options);
  return x;
}

/// The same; where making all integers takes long, single matrices take what is left of the size.
double place(const BitAllocation& allocation, WeightsStore& store, const WeightsOptions& options) {
  const double x = place_steps(allocation, store, options);
  if (is_filled(allocation, options)) store.fill(x, *options.max_bytes);
  return x;
}

/// Beside an output that takes long.
std::unique_ptr<KeptParts> kept_beside(const std::filesystem::path& output,
                                       const BitAllocation& allocation,
                                       const WeightsOptions& options) {
  if (!options.parts_from || allocation.matrix_numbers() < *options.parts_from) return nullptr;
  return std::make_unique<KeptParts>(output.string() + ".parts");
}

/// The files of exact weights, whose digests are taken beside other work; with losses, which of
/// several safetensors files has which tensors.
class KeptOriginals {
 public:
  KeptOriginals(const TensorBundle& weights, const WeightsOptions& options) {
    if (!is_exact(options)) {
      std::string unused;
      if (weights.contents.size() < 2) return;
      auto shards = find_originals(weights, unused);
      if (!shards || shards->format != "safetensors") shards = safetensors_shards(weights);
      if (shards) given_ = shards->encode();
      return;
    }
    given_ = options.originals;
    if (!given_.empty()) return;
    auto found = find_originals(weights, note_);
    if (!found) return;
    packed_ = std::async([&weights, originals = std::move(*found)]() mutable {
      digest_originals(originals, weights);
      return pack_originals(originals.encode());
    });
  }
  const std::string& note() const noexcept { return note_; }
  void put(WeightsStore& store) {
    if (!given_.empty()) store.set_originals(pack_originals(given_));
    if (!packed_.valid()) return;
    store.set_originals(packed_.get());
    throw_if_interrupted();  // or the digests may be none
  }

 private:
  std::string note_;
  std::vector<std::byte> given_;
  std::future<PackedOriginals> packed_;
};

/// The digest of the content of exact weights, which is taken beside other work; or none is kept.
std::future<std::string> content_digest(const TensorBundle& weights, const WeightsOptions& options,
                                        std::optional<Layer> layer) {
  const bool kept = is_exact(options) && ((options.base() && !layer) || options.keep_digest);
  if (!kept) return {};
  return std::async(std::launch::async, [&weights] { return BaseModel(weights).digest(); });
}

/// An allocation and the tensors that it places.
struct PlacedWeights {
  /// @param folder  where large content waits
  /// @param output  beside which matrices are kept; or empty
  /// @param part    of a file with layers; or none
  PlacedWeights(const TensorBundle& weights, WeightsOptions given,
                const std::filesystem::path& folder, const std::filesystem::path& output,
                std::optional<Layer> part = {})
      : options(std::move(given)),
        layer(part),
        originals(weights, options),
        digest(content_digest(weights, options, layer)),
        distinct(with_equal_shared(weights, options)),
        allocation(distinct, options, layer.has_value()),
        kept(output.empty() ? nullptr : kept_beside(output, allocation, options)),
        store(allocation, options, folder, kept_settings(weights, options), kept.get()) {
    if (layer) store.set_layer(*layer);
    originals.put(store);
    if (digest.valid()) store.set_digest(digest.get());
  }
  const WeightsOptions options;
  const std::optional<Layer> layer;
  KeptOriginals originals;
  std::future<std::string> digest;
  const TensorBundle distinct;
  const BitAllocation allocation;
  const std::unique_ptr<KeptParts> kept;
  WeightsStore store;
  double steps = 0;  ///< what place() returned
};
using Placed = std::unique_ptr<PlacedWeights>;

/// Each tensor at the steps of an error by itself, without offsets of rows and feedback.
Placed weights_of_error(const TensorBundle& weights, const PlacedWeights& sized, double max_error,
                        const std::filesystem::path& folder) {
  WeightsOptions options = sized.options;
  options.settings = kept_settings(weights, sized.options);
  options.keep_settings = true;
  options.max_bytes.reset();
  options.max_error = max_error;
  options.statistics = nullptr;
  auto placed =
      std::make_unique<PlacedWeights>(weights, std::move(options), folder, "", sized.layer);
  place(placed->allocation, placed->store, placed->options);
  return placed;
}

/// Where no steps reach a size, steps of an error may: about the least error that does, else the
/// largest one that a tensor may have.
Placed coarsest_weights(const TensorBundle& weights, const PlacedWeights& sized,
                        const std::filesystem::path& folder) {
  Placed found = weights_of_error(weights, sized, kMostRelativeError, folder);
  if (found->store.size() > *sized.options.max_bytes || takes_long(sized.allocation)) return found;
  BracketSearch search({.scale = Scale::kLog, .cuts = kErrorTries},
                       {.holds = kMostRelativeError, .fails = kMostRelativeError / kErrorRange});
  while (const auto error = search.next()) {
    Placed made = weights_of_error(weights, sized, *error, folder);
    const bool fits = made->store.size() <= *sized.options.max_bytes;
    search.tried(*error, fits);
    if (fits) found = std::move(made);
  }
  return found;
}

/// Integers for the target. @return another way to store them that takes less where the target is
/// missed, or null
Placed place_all(PlacedWeights& placed, const TensorBundle& weights,
                 const std::filesystem::path& folder) {
  const WeightsOptions& options = placed.options;
  placed.steps = place(placed.allocation, placed.store, options);
  if (!options.max_bytes || options.base() || options.measure == ErrorMeasure::kTotal ||
      placed.allocation.matrix_numbers() == 0 || placed.store.size() <= *options.max_bytes)
    return nullptr;
  Placed coarsest = coarsest_weights(weights, placed, folder);
  if (coarsest->store.size() >= placed.store.size()) return nullptr;
  return coarsest;
}

/// Adds what the file alone does not say.
void add_notes(const PlacedWeights& placed, std::vector<std::string>& notes) {
  for (std::string& note : placed.allocation.notes()) notes.push_back(std::move(note));
  if (!placed.originals.note().empty()) notes.push_back(placed.originals.note());
}

/// Calls work(); where it is stopped, says how it goes on.
template <typename Work>
void keep_if_stopped(KeptParts* kept, const Work& work) {
  if (!kept || !kept->active()) return work();
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != Errc::kInterrupted) throw;
    kept->leave();
    throw Error(Errc::kInterrupted, "stopped on request; the same call continues with " +
                                        printable(kept->file().string()));
  }
}

}  // namespace

std::string_view measure_name(ErrorMeasure measure) noexcept {
  return measure == ErrorMeasure::kTotal ? "total" : "relative";
}

WeightsReport compress_weights(const TensorBundle& weights, const std::filesystem::path& output,
                               const WeightsOptions& options) {
  check(options);
  check_bases(weights, options);
  check_not_an_input(output, weights.files);
  for (const BaseModel& base : options.bases) check_not_an_input(output, base.tensors().files);
  check_writable(output, options.overwrite);
  PlacedWeights placed(weights, options, output.parent_path(), output);
  WeightsReport report;
  keep_if_stopped(placed.kept.get(), [&] {
    const Placed smaller = place_all(placed, weights, output.parent_path());
    (smaller ? *smaller : placed)
        .store.writer()
        .write(output, options.overwrite, [&](const ArtifactReader& artifact) {
          report = measure(artifact, weights, options);
          add_notes(placed, report.notes);
          report.steps = placed.steps;
          if (options.look) options.look(artifact);
        });
  });
  return report;
}

LayersReport compress_layers(const TensorBundle& weights, const std::filesystem::path& output,
                             const WeightsOptions& options) {
  check(options);
  if (options.base() || is_exact(options))
    throw Error(
        Errc::kUsage,
        "a draft has weights, a size or an error as target, and no base; leave out `layers`");
  check_not_an_input(output, weights.files);
  check_writable(output, options.overwrite);
  const std::filesystem::path folder = output.parent_path();
  PlacedWeights placed(weights, options, folder, "", Layer::kDraft);
  const Placed smaller = place_all(placed, weights, folder);
  const PlacedWeights& draft = smaller ? *smaller : placed;
  WeightsOptions exact;
  exact.arch = options.arch;
  exact.keep_digest = options.keep_digest;
  exact.originals = options.originals;
  exact.threads = options.threads;
  std::optional<BaseModel> base;
  Placed rest;
  LayersReport report;
  const auto add_exact = [&](const ArtifactReader& file) -> const ArtifactWriter& {
    report.draft = measure(file, weights, options);
    add_notes(placed, report.draft.notes);
    report.draft.steps = placed.steps;
    base = BaseModel::open(file.path());
    WeightsOptions onto = exact;
    onto.bases = {&*base, 1};
    rest = std::make_unique<PlacedWeights>(weights, std::move(onto), folder, "", Layer::kExact);
    return rest->store.writer();
  };
  ArtifactWriter::write_layers(draft.store.writer(), add_exact, output, options.overwrite,
                               [&](const ArtifactReader& file) {
                                 report.exact = measure(file, weights, exact);
                                 add_notes(*rest, report.exact.notes);
                                 if (options.look) options.look(file);
                               });
  return report;
}

EncodedWeights encode_weights(const TensorBundle& weights, const std::filesystem::path& folder,
                              const WeightsOptions& options) {
  check(options);
  check_bases(weights, options);
  PlacedWeights placed(weights, options, folder, "");
  const Placed smaller = place_all(placed, weights, folder);
  EncodedWeights encoded{(smaller ? *smaller : placed).store.writer().encode(), {}};
  const ArtifactReader artifact = ArtifactReader::from_bytes(encoded.file, "the file");
  encoded.report = measure(artifact, weights, options);
  add_notes(placed, encoded.report.notes);
  return encoded;
}

}  // namespace gbcompress
