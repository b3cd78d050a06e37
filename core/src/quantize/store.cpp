#include "quantize/store.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "artifact/block_source.h"
#include "artifact/header/header.h"
#include "artifact/integers/integers.h"
#include "artifact/integers/transform.h"
#include "artifact/lookahead.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/float_code.h"
#include "artifact/sections/lanes_sections.h"
#include "artifact/sections/packing.h"
#include "base/mapped_inputs.h"
#include "format/gguf/block_fields.h"
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

int vector_bits(const BitAllocation& allocation, const WeightsOptions& options) {
  if (!options.max_bytes || allocation.numbers() == 0) return kVectorBits;
  const double bits =
      8 * static_cast<double>(*options.max_bytes) / static_cast<double>(allocation.numbers());
  return static_cast<int>(std::lrint(
      std::clamp(kVectorBits + bits - kBitsOfSeven, 1.0 * kVectorBits, 1.0 * kMostVectorBits)));
}
/// A change of at most this share of what a sample says of the whole tensor is taken without
/// packing it for comparison: so many pieces of so many bytes from all over it, or all of it.
constexpr double kClearly = 0.75;
constexpr std::size_t kPieces = 16, kPiece = 4096;

/// Blocks of so few bytes may take less as integers than by fields, whose tables take bytes.
constexpr std::size_t kFewBlocks = std::size_t{1} << 16;

/// Sections of models of more bytes are kept in a temporary file until the header is written.
constexpr std::int64_t kInMemory = std::int64_t{64} << 20;

std::int64_t bytes_of(const BitAllocation& allocation) {
  std::int64_t bytes = 0;
  for (const TensorAllocation& tensor : allocation.tensors())
    bytes += static_cast<std::int64_t>(tensor.source->bytes.size());
  return bytes;
}

/// Bytes that pack() takes for a tensor, about.
double estimated_bytes(const TensorEntry& source) {
  const auto width = static_cast<std::size_t>(std::max(1, dtype_bits(source.dtype) / 8));
  const auto estimate = [&](std::span<const std::byte> bytes) {
    return static_cast<double>(estimate_packed(bytes, static_cast<std::int64_t>(width),
                                               is_real(source.dtype), source.block_type));
  };
  if (source.bytes.size() <= kPieces * kPiece) return estimate(source.bytes);
  const gguf::BlockLayout* const layout = gguf::find_block_layout(source.block_type);
  const std::size_t unit = layout ? layout->bytes : width;
  const std::vector<std::byte> sample = pieces_of(source.bytes, unit, kPieces, kPiece / unit);
  return estimate(sample) * static_cast<double>(source.bytes.size()) /
         static_cast<double>(sample.size());
}

/// As elements of the tensor's type hold them.
std::vector<float> decoded_numbers(const CodedValues& values, const TensorEntry& source) {
  const std::vector<float> numbers = tensor_floats(values, source.shape);
  std::vector<float> decoded(numbers.size());
  floats_of(elements_of(numbers, source.dtype), source.dtype, decoded);
  return decoded;
}

std::pair<std::vector<std::byte>, Packing> packed_alone(const TensorEntry& source) {
  return pack(source.bytes, std::max(1, dtype_bits(source.dtype) / 8), has_planes(source.dtype),
              {.type = source.block_type});
}

/// The tensor by itself, where a change of so many bytes is not smaller than that.
std::optional<std::pair<std::vector<std::byte>, Packing>> smaller_alone(std::size_t change,
                                                                        const TensorEntry& source,
                                                                        CodecProfile profile) {
  if ((is_real(source.dtype) || source.block_type != 0) &&
      static_cast<double>(change) < kClearly * estimated_bytes(source))
    return {};
  auto packed = packed_alone(source);
  if (change >= packed.first.size()) return packed;
  const std::optional<CodedValues> values = whole_numbers(source, profile);
  if (!values || static_cast<double>(change) < coded_bytes(*values, profile)) return {};
  return packed;
}

/// Bytes of tensors that each thread packs ahead of the one that is added.
constexpr std::int64_t kAhead = std::int64_t{8} << 20;

/// Bytes that a tensor takes while it is prepared: its packed ones, its change, or tables of
/// planes.
std::int64_t held_ahead(const TensorAllocation& tensor) {
  constexpr std::int64_t kTables = std::int64_t{1} << 18;
  const auto bytes = static_cast<std::int64_t>(tensor.source->bytes.size());
  if (tensor.match.blocks) return 3 * bytes;  // as they are made, their scales, and the section
  return bytes < static_cast<std::int64_t>(kLargeTensor) || tensor.match.any() ? bytes : kTables;
}

}  // namespace

WeightsStore::WeightsStore(const BitAllocation& allocation, const WeightsOptions& options,
                           const std::filesystem::path& folder, std::string settings,
                           KeptParts* kept)
    : allocation_(allocation),
      options_(options),
      kept_(kept),
      writer_(options.arch, std::move(settings)),
      counts_stripes_(options.small_where_it_pays) {
  errors_.resize(allocation.tensors().size());
  nudges_.resize(allocation.tensors().size());
  exact_.resize(allocation.tensors().size());
  profiles_.assign(allocation.tensors().size(), allocation.profile());
  placed_.resize(allocation.tensors().size());
  asked_.resize(allocation.tensors().size());
  std::vector<std::string> digests;
  for (const BaseModel& base : options.bases) digests.push_back(base.digest());
  writer_.set_bases(std::move(digests));
  writer_.set_profile(allocation.profile());
  writer_.set_threads(allocation.threads());
  if (allocation.profile() == CodecProfile::kLanes || bytes_of(allocation) > kInMemory)
    writer_.spool_in(folder);
  std::vector<std::int64_t> sizes;
  for (const TensorAllocation& tensor : allocation.tensors()) sizes.push_back(held_ahead(tensor));
  Lookahead<Prepared> ahead(allocation.threads(), std::move(sizes), allocation.threads() * kAhead,
                            [&](std::size_t i) { return prepare(allocation.tensors()[i]); });
  for (const TensorAllocation& tensor : allocation.tensors()) add(tensor, ahead.next());
  if (options.statistics) find_biases();
}

WeightsStore::Prepared WeightsStore::prepare(const TensorAllocation& tensor) const {
  const TensorEntry& source = *tensor.source;
  const bool elsewhere =
      tensor.tied || tensor.unchanged || tensor.constant || tensor.kind == WeightKind::kMatrix;
  if (elsewhere || interrupt_requested() != 0) return {};
  Prepared prepared;
  if (tensor.match.any() && !is_bytes(source)) prepared = changed(tensor);
  if (prepared.change || prepared.packed) {
    release_pages(source.bytes);
    return prepared;
  }
  if (source.bytes.size() >= kLargeTensor)
    return {.planes = has_planes(source.dtype) && !tensor.levels
                          ? planes_of(source.bytes, dtype_bits(source.dtype) / 8)
                          : nullptr};
  prepared.packed = packed_alone(source);
  release_pages(source.bytes);
  return prepared;
}

/// What changed since a base; the tensor packed, where that was found to be smaller.
WeightsStore::Prepared WeightsStore::changed(const TensorAllocation& tensor) const {
  if (!tensor.match.blocks && !tensor.match.namesake) return {.change = changed_pieces(tensor)};
  const TensorEntry& source = *tensor.source;
  std::vector<std::byte> section;
  if (tensor.match.blocks) {
    auto made = made_blocks(tensor);
    if (!made) return {};
    section = *std::move(made);
  } else {
    const TensorEntry& before = *entry_before(&options_.bases[*tensor.match.namesake], source);
    section = encode_change(source.dtype, source.shape, before.bytes, source.bytes);
    release_pages(before.bytes);
  }
  if (auto alone = smaller_alone(section.size(), source, allocation_.profile()))
    return {.packed = std::move(alone)};
  return {.change = Change{{}, {std::move(section)}}};
}

/// How blocks follow from the tensor that they were quantized from; nothing where they do not.
std::optional<std::vector<std::byte>> WeightsStore::made_blocks(
    const TensorAllocation& tensor) const {
  const TensorEntry& source = *tensor.source;
  const auto& [base, before] = *tensor.match.blocks;
  const std::size_t blocks =
      source.bytes.size() / gguf::find_block_layout(source.block_type)->bytes;
  // Large ones are made alone, others side by side.
  const int threads =
      held_ahead(tensor) > allocation_.threads() * kAhead ? allocation_.threads() : 1;
  return pack_requantized(source.bytes, source.block_type,
                          base_values(options_.bases[base], before, source, 0, blocks), threads);
}

void WeightsStore::add(const TensorAllocation& tensor, Prepared prepared) {
  const TensorEntry& source = *tensor.source;
  Packed& packed = prepared.packed;
  if (tensor.tied)
    return writer_.add_tied(source.name, allocation_.tensors()[*tensor.tied].source->name);
  if (tensor.unchanged)
    return writer_.add_base(source.name, source.dtype, source.shape,
                            tensor.match.namesake.value_or(0));
  if (tensor.constant) {
    const auto size = static_cast<std::size_t>(dtype_bits(source.dtype)) / 8;
    return writer_.add_constant(source.name, source.dtype, source.shape, source.bytes.first(size));
  }
  if (tensor.kind == WeightKind::kMatrix) {
    // Its place in the order; the integers follow.
    CodedValues empty{.grid = tensor.grid, .axis = tensor.axis, .on_base = tensor.base != nullptr};
    if (allocation_.profile() == CodecProfile::kLanes)
      return writer_.add_coded_section(source.name, source.dtype, source.shape, empty, {});
    empty.integers.resize(static_cast<std::size_t>(tensor.grid.size()));
    return writer_.add_coded(source.name, source.dtype, source.shape, std::move(empty));
  }
  if (tensor.kind == WeightKind::kVector && add_vector(tensor)) return;
  if (prepared.change) return add_change(tensor, *std::move(prepared.change));
  if (is_bytes(source) || !add_integers(tensor, packed)) {
    if (!packed)
      return writer_.add_plain(source.name, source.dtype, source.shape, source.bytes,
                               source.block_type, std::move(prepared.planes));
    writer_.add_packed(source.name, source.dtype, source.shape, std::move(packed->first),
                       packed->second, source.block_type);
  }
}

void WeightsStore::add_change(const TensorAllocation& tensor, Change change) {
  const TensorEntry& source = *tensor.source;
  if (tensor.match.blocks) {
    const auto& [base, before] = *tensor.match.blocks;
    writer_.add_blocks(source.name, source.shape, source.block_type, before,
                       std::move(change.sections.front()), base);
  } else if (tensor.match.namesake) {
    writer_.add_change(source.name, source.dtype, source.shape, std::move(change.sections.front()),
                       *tensor.match.namesake);
  } else {
    writer_.add_pieces(source.name, source.dtype, source.shape, std::move(change.pieces),
                       std::move(change.sections));
  }
}

/// Of pieces; those whose change is not smaller are stored by themselves.
std::optional<WeightsStore::Change> WeightsStore::changed_pieces(
    const TensorAllocation& tensor) const {
  const TensorEntry& source = *tensor.source;
  const auto width = static_cast<std::size_t>(dtype_bits(source.dtype) / 8);
  std::vector<TensorPiece> pieces;
  std::vector<std::vector<std::byte>> sections;
  std::size_t at = 0;
  bool found = false;
  for (TensorPiece piece : tensor.match.pieces) {
    const auto bytes = source.bytes.subspan(at, static_cast<std::size_t>(piece.elements) * width);
    at += bytes.size();
    std::vector<std::byte> section;
    if (piece.changed) {
      section = encode_change(source.dtype, piece_shape(source.shape, piece.elements),
                              source_of(piece, source), bytes);
      const TensorEntry alone{.name = "",
                              .dtype = source.dtype,
                              .shape = {piece.elements},
                              .bytes = bytes,
                              .block_type = source.block_type};
      if (smaller_alone(section.size(), alone, allocation_.profile()))
        piece = {.elements = piece.elements};
    }
    found = found || piece.source != TensorPiece::Source::kNone;
    if (piece.source == TensorPiece::Source::kNone) {
      section.assign(bytes.begin(), bytes.end());
      if (!pieces.empty() && pieces.back().source == piece.source) {
        pieces.back().elements += piece.elements;
        sections.back().insert(sections.back().end(), section.begin(), section.end());
        continue;
      }
    }
    pieces.push_back(std::move(piece));
    sections.push_back(std::move(section));
  }
  if (!found) return {};
  return Change{std::move(pieces), std::move(sections)};
}

std::span<const std::byte> WeightsStore::source_of(const TensorPiece& piece,
                                                   const TensorEntry& source) const {
  const TensorEntry* from = &source;
  if (piece.source == TensorPiece::Source::kBase)
    from = options_.bases[piece.base].find(piece.name.empty() ? source.name : piece.name);
  return TensorBlock{from, piece.first, piece.elements}.bytes();
}

/// Codes integers that tell a tensor exactly, if they are smaller than other packings.
bool WeightsStore::add_integers(const TensorAllocation& tensor, Packed& packed) {
  const TensorEntry& source = *tensor.source;
  const bool large = allocation_.profile() == CodecProfile::kLanes && !is_real(source.dtype) &&
                     source.block_type == 0 && source.bytes.size() >= kLargeTensor &&
                     !has_repeats(source.bytes);
  if (large) return add_large(source);
  return add_whole(source, packed) || add_levels(tensor, packed);
}

/// A sample decides, and no integers of the whole tensor are made.
bool WeightsStore::add_large(const TensorEntry& source) {
  const std::optional<PackedNumbers> numbers = packed_numbers(source, allocation_.threads());
  if (!numbers) return false;
  writer_.add_coded_section(source.name, source.dtype, source.shape, numbers->form, {});
  writer_.update_packed(source.name, numbers->form, numbers->blocks);
  return true;
}

/// Codes an integer type, if that is smaller than zstd's result.
bool WeightsStore::add_whole(const TensorEntry& source, Packed& packed) {
  if (source.block_type != 0 && source.bytes.size() > kFewBlocks) return false;
  std::optional<CodedValues> values = whole_numbers(source, allocation_.profile());
  if (!values) return false;
  if (!packed) packed = packed_alone(source);
  return add_smaller(source, *std::move(values), packed->first.size());
}

/// The same of a tensor of few values.
bool WeightsStore::add_levels(const TensorAllocation& tensor, Packed& packed) {
  const TensorEntry& source = *tensor.source;
  if (!tensor.levels) return false;
  std::optional<CodedValues> values = coded_levels(*tensor.levels, source, numbers_of(source));
  if (!values) return false;
  // Where values follow no scale, the frequency of a level tells more than its place.
  if (values->levels.palette > 0) {
    CodedValues moved = in_order_of_frequency(*values, *tensor.levels);
    if (coded_bytes(moved, allocation_.profile()) < coded_bytes(*values, allocation_.profile()))
      values = std::move(moved);
  }
  if (!packed) packed = packed_alone(source);
  return add_smaller(source, *std::move(values), packed->first.size());
}

bool WeightsStore::add_smaller(const TensorEntry& source, CodedValues values, std::size_t packed) {
  if (are_noise(values.integers, packed)) return false;
  // In a file its tables are shared with others', which those of a section by itself are not.
  if (coded_bytes(values, allocation_.profile()) >= static_cast<double>(packed)) return false;
  if (allocation_.profile() == CodecProfile::kSmall)
    writer_.add_coded(source.name, source.dtype, source.shape, std::move(values));
  else
    writer_.add_coded_section(source.name, source.dtype, source.shape, values,
                              encode_section(values));
  return true;
}

std::optional<CodedValues> WeightsStore::short_floats(const TensorAllocation& tensor,
                                                      const std::vector<float>& numbers) const {
  if (!fits_short_floats(numbers)) return {};
  CodedValues values = float_coded(tensor.grid, numbers, vector_bits(allocation_, options_));
  const double most = options_.max_error.value_or(kMostRelativeError) * tensor.share;
  while (relative_error(numbers, coded_floats(values)) > most) {
    if (values.mantissa_bits == kMaxMantissaBits) return {};
    values = float_coded(tensor.grid, numbers, values.mantissa_bits + 1);
  }
  return values;
}

bool WeightsStore::add_vector(const TensorAllocation& tensor) {
  const TensorEntry& source = *tensor.source;
  std::optional<CodedValues> values = short_floats(tensor, numbers_of(source));
  if (!values) return false;
  if (allocation_.profile() == CodecProfile::kSmall) {
    writer_.add_coded(source.name, source.dtype, source.shape, *std::move(values));
  } else {
    if (coded_bytes(*values, allocation_.profile()) >= static_cast<double>(source.bytes.size()))
      return false;
    writer_.add_coded_section(source.name, source.dtype, source.shape, *values,
                              encode_section(*values));
  }
  coded_vectors_.insert(source.name);
  return true;
}

StepMatrix WeightsStore::matrix_of(std::size_t i) const {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  IntegerGrid grid = tensor.grid;
  grid.lanes = profiles_[i] == CodecProfile::kLanes;
  return {grid, tensor.numbers(), tensor.facts.row_steps, tensor.facts.sizes};
}

void WeightsStore::put_exactly(std::size_t i) {
  const TensorEntry& source = *allocation_.tensors()[i].source;
  exact_[i] = 1;
  errors_[i] = 0;
  placed_[i].reset();
  const std::lock_guard lock(mutex_);
  writer_.update_plain(source.name, source.bytes);
}

void WeightsStore::put(std::size_t i, CodedValues values, const std::string& key) {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  values.axis = tensor.axis;
  values.on_base = tensor.base != nullptr;
  if (options_.sequential) {
    std::vector<float> decoded = decoded_numbers(values, *tensor.source);
    const std::lock_guard lock(mutex_);
    shown_[i] = std::move(decoded);
  }
  if (allocation_.profile() == CodecProfile::kSmall) {
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
  form.axis = allocation_.tensors()[i].axis;
  form.on_base = allocation_.tensors()[i].base != nullptr;
  placed_[i] = Placed{form.step, counts_stripes_ ? bytes_in_stripes(i, form, blocks) : 0};
  if (!key.empty()) {
    KeptParts::Part part{form.step, errors_[i], {}, !form.row_steps.empty()};
    for (const PackedBlock& block : blocks)
      part.section.insert(part.section.end(), block.begin(), block.end());
    kept_->add(key, part);
  }
  const std::lock_guard lock(mutex_);
  writer_.update_packed(allocation_.tensors()[i].source->name, form, blocks);
}

/// In a file, whose tables are shared: its stripes, without the states where others share the
/// stripe too, and a bit or so for the class of a line or column.
double WeightsStore::bytes_in_stripes(std::size_t i, const CodedValues& form,
                                      const std::vector<PackedBlock>& blocks) const {
  const TensorEntry& source = *allocation_.tensors()[i].source;
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
  const TensorAllocation& tensor = allocation_.tensors()[i];
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
