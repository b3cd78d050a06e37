#include "quantize/store.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "artifact/integers/integers.h"
#include "artifact/integers/transform.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "artifact/sections/lanes_sections.h"
#include "artifact/sections/packing.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "quantize/change.h"
#include "quantize/whole_numbers.h"

namespace gbcompress {
namespace {

/// Bits behind the leading one that vectors keep: those of bfloat16 (0.2 % at most are off) where
/// matrices have 2.7 bits per weight, and one more for each bit that matrices have more, so that
/// vectors stay below a hundredth of the error.
constexpr int kVectorBits = 7, kMostVectorBits = 12;
constexpr double kBitsOfSeven = 2.7;

int vector_bits(const WeightsPlan& plan, const WeightsOptions& options) {
  if (!options.max_bytes || plan.numbers() == 0) return kVectorBits;
  const double bits =
      8 * static_cast<double>(*options.max_bytes) / static_cast<double>(plan.numbers());
  return static_cast<int>(std::lrint(
      std::clamp(kVectorBits + bits - kBitsOfSeven, 1.0 * kVectorBits, 1.0 * kMostVectorBits)));
}
/// A change of so small a share of a tensor is taken without storing the tensor for comparison,
/// unless pieces of it from all over the tensor take less than half of their bytes.
constexpr std::size_t kSmallShare = 20, kPieces = 16, kPiece = 4096;

/// Sections of models of more bytes are kept in a temporary file until the header is written.
constexpr std::int64_t kInMemory = std::int64_t{64} << 20;

std::int64_t bytes_of(const WeightsPlan& plan) {
  std::int64_t bytes = 0;
  for (const TensorPlan& tensor : plan.tensors())
    bytes += static_cast<std::int64_t>(tensor.source->bytes.size());
  return bytes;
}

bool packs_well(std::span<const std::byte> bytes) {
  if (bytes.size() <= kPieces * kPiece) return 2 * compress_fast(bytes).size() <= bytes.size();
  std::vector<std::byte> pieces;
  for (std::size_t i = 0; i < kPieces; ++i) {
    const auto piece = bytes.subspan((bytes.size() - kPiece) / (kPieces - 1) * i, kPiece);
    pieces.insert(pieces.end(), piece.begin(), piece.end());
  }
  return 2 * compress_fast(pieces).size() <= pieces.size();
}

/// As elements of the tensor's type hold them.
std::vector<float> decoded_numbers(const CodedValues& values, const TensorEntry& source) {
  const std::vector<float> numbers = tensor_floats(values, source.shape);
  std::vector<float> decoded(numbers.size());
  floats_of(elements_of(numbers, source.dtype), source.dtype, decoded);
  return decoded;
}

/// Whether a change is smaller than the tensor would be.
bool is_smaller(std::size_t change, const TensorEntry& source, CodecProfile profile) {
  if (change < source.bytes.size() / kSmallShare && is_real(source.dtype) &&
      !packs_well(source.bytes))
    return true;
  const auto packed =
      pack(source.bytes, std::max(1, dtype_bits(source.dtype) / 8), is_real(source.dtype)).first;
  if (change >= packed.size()) return false;
  const std::optional<CodedValues> values = whole_numbers(source, profile);
  return !values || static_cast<double>(change) < coded_bytes(*values, profile);
}

/// Whether integers of many values take as many bytes by their frequencies alone: contexts take
/// little from those, and coding them to find out takes longer than all else.
bool are_noise(std::span<const std::int32_t> integers, std::size_t bytes) {
  constexpr std::size_t kNoiseValues = 256;
  std::unordered_map<std::int32_t, std::int64_t> counts;
  for (const std::int32_t integer : integers) ++counts[integer];
  if (counts.size() <= kNoiseValues) return false;
  double bits = 0;
  for (const auto& [integer, count] : counts)
    bits += static_cast<double>(count) *
            std::log2(static_cast<double>(integers.size()) / static_cast<double>(count));
  return bits / 8 >= static_cast<double>(bytes);
}

}  // namespace

WeightsStore::WeightsStore(const WeightsPlan& plan, const WeightsOptions& options,
                           const std::filesystem::path& folder, std::string settings,
                           KeptParts* kept)
    : plan_(plan),
      options_(options),
      kept_(kept),
      writer_(options.arch, std::move(settings)),
      counts_stripes_(options.small_where_it_pays) {
  errors_.resize(plan.tensors().size());
  nudges_.resize(plan.tensors().size());
  exact_.resize(plan.tensors().size());
  profiles_.assign(plan.tensors().size(), plan.profile());
  placed_.resize(plan.tensors().size());
  asked_.resize(plan.tensors().size());
  if (options.base) writer_.set_base(options.base->digest());
  writer_.set_profile(plan.profile());
  writer_.set_threads(plan.threads());
  if (plan.profile() == CodecProfile::kLanes || bytes_of(plan) > kInMemory)
    writer_.spool_in(folder);
  for (const TensorPlan& tensor : plan.tensors()) add(tensor);
  if (options.statistics) find_biases();
}

void WeightsStore::add(const TensorPlan& tensor) {
  const TensorEntry& source = *tensor.source;
  if (tensor.tied) return writer_.add_tied(source.name, plan_.tensors()[*tensor.tied].source->name);
  if (tensor.unchanged) return writer_.add_base(source.name, source.dtype, source.shape);
  if (tensor.constant) {
    const auto size = static_cast<std::size_t>(dtype_bits(source.dtype)) / 8;
    return writer_.add_constant(source.name, source.dtype, source.shape, source.bytes.first(size));
  }
  if (tensor.kind == WeightKind::kMatrix) {
    // Its place in the order; the integers follow.
    CodedValues empty{.grid = tensor.grid, .axis = tensor.axis, .on_base = tensor.base != nullptr};
    if (plan_.profile() == CodecProfile::kLanes)
      return writer_.add_coded_section(source.name, source.dtype, source.shape, empty, {});
    empty.integers.resize(static_cast<std::size_t>(tensor.grid.size()));
    return writer_.add_coded(source.name, source.dtype, source.shape, std::move(empty));
  }
  if (tensor.kind == WeightKind::kVector && add_vector(tensor)) return;
  if (is_bytes(source) || (!add_change(source) && !add_whole(source) && !add_levels(tensor)))
    writer_.add_plain(source.name, source.dtype, source.shape, source.bytes);
}

/// Stores what changed since the base, if that is smaller than the tensor itself.
bool WeightsStore::add_change(const TensorEntry& source) {
  if (!options_.base || !is_exact(options_) || !has_change(source.dtype) || source.bytes.empty())
    return false;
  const TensorEntry* before = entry_before(options_.base, source);
  if (!before) return false;
  std::vector<std::byte> section =
      encode_change(source.dtype, source.shape, before->bytes, source.bytes);
  if (!is_smaller(section.size(), source, plan_.profile())) return false;
  writer_.add_change(source.name, source.dtype, source.shape, std::move(section));
  return true;
}

/// Codes an integer type, if that is smaller than zstd's result.
bool WeightsStore::add_whole(const TensorEntry& source) {
  std::optional<CodedValues> values = whole_numbers(source, plan_.profile());
  return values && add_integers(source, *std::move(values),
                                pack(source.bytes, dtype_bits(source.dtype) / 8).first.size());
}

/// The same of a tensor of few values.
bool WeightsStore::add_levels(const TensorPlan& tensor) {
  const TensorEntry& source = *tensor.source;
  if (!tensor.levels) return false;
  std::optional<CodedValues> values = coded_levels(*tensor.levels, source, numbers_of(source));
  return values &&
         add_integers(source, *std::move(values),
                      pack(source.bytes, dtype_bits(source.dtype) / 8, true).first.size());
}

bool WeightsStore::add_integers(const TensorEntry& source, CodedValues values, std::size_t packed) {
  if (are_noise(values.integers, packed)) return false;
  // In a file its tables are shared with others', which those of a section by itself are not.
  if (coded_bytes(values, plan_.profile()) >= static_cast<double>(packed)) return false;
  if (plan_.profile() == CodecProfile::kSmall)
    writer_.add_coded(source.name, source.dtype, source.shape, std::move(values));
  else
    writer_.add_coded_section(source.name, source.dtype, source.shape, values,
                              encode_section(values));
  return true;
}

std::optional<CodedValues> WeightsStore::short_floats(const TensorPlan& tensor,
                                                      const std::vector<float>& numbers) const {
  if (!fits_short_floats(numbers)) return {};
  CodedValues values = float_coded(tensor.grid, numbers, vector_bits(plan_, options_));
  const double most = options_.max_error.value_or(kMostRelativeError) * tensor.share;
  while (relative_error(numbers, coded_floats(values)) > most) {
    if (values.mantissa_bits == kMaxMantissaBits) return {};
    values = float_coded(tensor.grid, numbers, values.mantissa_bits + 1);
  }
  return values;
}

bool WeightsStore::add_vector(const TensorPlan& tensor) {
  const TensorEntry& source = *tensor.source;
  std::optional<CodedValues> values = short_floats(tensor, numbers_of(source));
  if (!values) return false;
  if (plan_.profile() == CodecProfile::kSmall) {
    writer_.add_coded(source.name, source.dtype, source.shape, *std::move(values));
  } else {
    if (coded_bytes(*values, plan_.profile()) >= static_cast<double>(source.bytes.size()))
      return false;
    writer_.add_coded_section(source.name, source.dtype, source.shape, *values,
                              encode_section(*values));
  }
  coded_vectors_.insert(source.name);
  return true;
}

StepMatrix WeightsStore::matrix_of(std::size_t i) const {
  const TensorPlan& tensor = plan_.tensors()[i];
  IntegerGrid grid = tensor.grid;
  grid.lanes = profiles_[i] == CodecProfile::kLanes;
  return {grid, tensor.numbers(), tensor.facts.row_steps, tensor.facts.sizes};
}

void WeightsStore::put_exactly(std::size_t i) {
  const TensorEntry& source = *plan_.tensors()[i].source;
  exact_[i] = 1;
  errors_[i] = 0;
  placed_[i].reset();
  const std::lock_guard lock(mutex_);
  writer_.update_plain(source.name, source.bytes);
}

void WeightsStore::put(std::size_t i, CodedValues values, const std::string& key) {
  const TensorPlan& tensor = plan_.tensors()[i];
  values.axis = tensor.axis;
  values.on_base = tensor.base != nullptr;
  if (options_.sequential) {
    std::vector<float> decoded = decoded_numbers(values, *tensor.source);
    const std::lock_guard lock(mutex_);
    shown_[i] = std::move(decoded);
  }
  if (plan_.profile() == CodecProfile::kSmall) {
    const std::lock_guard lock(mutex_);
    return writer_.update_coded(tensor.source->name, std::move(values));
  }
  if (profiles_[i] == CodecProfile::kSmall) {
    std::vector<std::byte> section = encode_section(values, CodecProfile::kSmall);
    values.integers = std::vector<std::int32_t>();  // "= {}" would keep the memory
    placed_[i].reset();
    const std::lock_guard lock(mutex_);
    return writer_.update_coded_section(tensor.source->name, values, std::move(section),
                                        CodecProfile::kSmall);
  }
  std::vector<PackedBlock> blocks;
  if (!values.row_steps.empty()) blocks = pack_grid({1, values.grid.rows, 0}, values.row_steps);
  for (PackedBlock& block : pack_grid(values.grid, values.integers))
    blocks.push_back(std::move(block));
  values.integers = std::vector<std::int32_t>();  // "= {}" would keep the memory
  put_packed(i, std::move(values), blocks, key);
}

void WeightsStore::put_packed(std::size_t i, CodedValues form,
                              const std::vector<PackedBlock>& blocks, const std::string& key) {
  form.axis = plan_.tensors()[i].axis;
  form.on_base = plan_.tensors()[i].base != nullptr;
  placed_[i] = Placed{form.step, counts_stripes_ ? bytes_in_stripes(i, form, blocks) : 0};
  if (!key.empty()) {
    KeptParts::Part part{form.step, errors_[i], {}, !form.row_steps.empty()};
    for (const PackedBlock& block : blocks)
      part.section.insert(part.section.end(), block.begin(), block.end());
    kept_->add(key, part);
  }
  const std::lock_guard lock(mutex_);
  writer_.update_packed(plan_.tensors()[i].source->name, form, blocks);
}

/// In a file, whose tables are shared: its stripes, without the states where others share the
/// stripe too, and a bit or so for the class of a line or column.
double WeightsStore::bytes_in_stripes(std::size_t i, const CodedValues& form,
                                      const std::vector<PackedBlock>& blocks) const {
  const TensorEntry& source = *plan_.tensors()[i].source;
  ArtifactTensor tensor;
  tensor.dtype = source.dtype;
  tensor.shape = source.shape;
  tensor.kind = TensorKind::kQuantized;
  tensor.profile = CodecProfile::kLanes;
  tensor.grid = form.grid;
  tensor.row_steps = !form.row_steps.empty();
  const auto block = [&](std::size_t at, PackedBlock&) -> std::span<const std::byte> {
    return blocks[at];
  };
  const LanesSections sections(
      {tensor},
      [&](std::size_t, const LanesSections::Visit& visit) {
        visit_packed(integer_grids(tensor), block, visit);
      },
      {}, 1);
  double bytes = static_cast<double>(form.grid.rows + form.grid.cols) / 8;
  for (const std::int64_t stripe : sections.stripes()) bytes += static_cast<double>(stripe);
  constexpr double kStates = 260;
  return sections.stripes().size() == 1 ? bytes - kStates : bytes;
}

std::optional<double> WeightsStore::gain_of_small(std::size_t i, int threads) const {
  const TensorPlan& tensor = plan_.tensors()[i];
  if (!placed_[i] || tensor.model || tensor.second || !fits_small({&tensor.grid, 1}) ||
      tensor.facts.numbers > kMaxSmallIntegers)
    return {};
  IntegerGrid grid = tensor.grid;
  grid.lanes = false;
  const StepMatrix matrix(grid, tensor.numbers(), tensor.facts.row_steps, tensor.facts.sizes);
  const CodedValues values = matrix.choose(placed_[i]->step, options_.quantizer, threads).values;
  const auto small = static_cast<double>(encode_section(values, CodecProfile::kSmall).size());
  const double saved = placed_[i]->bytes - small;
  const double seconds = static_cast<double>(tensor.facts.numbers) / kSmallIntegersASecond;
  if (saved < kSmallBytesASecond * seconds) return {};
  return saved;
}

double WeightsStore::choose_profiles() {
  std::vector<std::optional<double>> gains(profiles_.size());
  for_matrices([&](std::size_t i, int threads) { gains[i] = gain_of_small(i, threads); });
  // Stripes are those of at least one tensor.
  const auto in_lanes = [&](std::size_t i) { return placed_[i] && !gains[i]; };
  std::optional<std::size_t> least;
  bool any = !coded_vectors_.empty();
  for (std::size_t i = 0; i < gains.size(); ++i) {
    any = any || in_lanes(i);
    if (gains[i] && (!least || *gains[i] < *gains[*least])) least = i;
  }
  if (!any && least) gains[*least].reset();
  double saved = 0;
  for (std::size_t i = 0; i < gains.size(); ++i) {
    if (!gains[i]) continue;
    profiles_[i] = CodecProfile::kSmall;
    asked_[i].reset();
    saved += *gains[i];
  }
  return saved;
}

}  // namespace gbcompress
