#include "quantize/whole_numbers.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

#include "artifact/integers/integers.h"
#include "artifact/sections/elements.h"
#include "artifact/sections/levels.h"
#include "artifact/sections/packing.h"
#include "base/digest.h"
#include "base/mapped_inputs.h"
#include "base/parallel.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// Elements on which the forms are compared; all are coded in the one that wins.
constexpr std::int64_t kCompared = 1 << 18;
/// Integers that are coded to tell what a tensor takes.
constexpr std::int64_t kMostCounted = std::int64_t{1} << 26;
/// Larger numbers are no weights.
constexpr std::int64_t kLargest = std::int64_t{1} << 40;

template <typename T, typename Visit>
void for_elements(std::span<const std::byte> bytes, const Visit& visit) {
  for (std::size_t i = 0; i + sizeof(T) <= bytes.size(); i += sizeof(T)) {
    T value;
    std::memcpy(&value, bytes.data() + i, sizeof value);
    if constexpr (std::is_unsigned_v<T>)
      visit(static_cast<std::int64_t>(std::min<std::uint64_t>(value, kLargest)));
    else
      visit(std::clamp<std::int64_t>(value, -kLargest, kLargest));
  }
}

/// Calls visit() with every number of the tensor, or with its nibbles.
template <typename Visit>
void for_numbers(const TensorEntry& tensor, bool nibbles, const Visit& visit) {
  if (nibbles) {
    for (const std::byte byte : tensor.bytes)
      for (const int shift : {0, 4}) visit(std::to_integer<std::int64_t>(byte) >> shift & 15);
    return;
  }
  switch (tensor.dtype) {
    case DType::kBool:
    case DType::kU8:
      return for_elements<std::uint8_t>(tensor.bytes, visit);
    case DType::kI8:
      return for_elements<std::int8_t>(tensor.bytes, visit);
    case DType::kU16:
      return for_elements<std::uint16_t>(tensor.bytes, visit);
    case DType::kI16:
      return for_elements<std::int16_t>(tensor.bytes, visit);
    case DType::kU32:
      return for_elements<std::uint32_t>(tensor.bytes, visit);
    case DType::kI32:
      return for_elements<std::int32_t>(tensor.bytes, visit);
    case DType::kU64:
      return for_elements<std::uint64_t>(tensor.bytes, visit);
    case DType::kI64:
      return for_elements<std::int64_t>(tensor.bytes, visit);
    default:
      return;
  }
}

/// All numbers, or nibbles, less a middle; nothing where one is too large.
std::optional<std::vector<std::int32_t>> offsets(const TensorEntry& tensor, bool nibbles,
                                                 std::int64_t middle, std::int64_t count) {
  std::vector<std::int32_t> integers;
  integers.reserve(static_cast<std::size_t>(count));
  bool fits = true;
  for_numbers(tensor, nibbles, [&](std::int64_t n) {
    const std::int64_t off = n - middle;
    fits = fits && off >= -kMaxMagnitude && off <= kMaxMagnitude;
    if (fits) integers.push_back(static_cast<std::int32_t>(off));
  });
  if (!fits) return {};
  return integers;
}

/// Around their middle: small integers of either sign are the cheapest.
std::optional<CodedValues> centred(IntegerGrid grid, const TensorEntry& tensor, bool nibbles) {
  double sum = 0;
  for_numbers(tensor, nibbles, [&](std::int64_t n) { sum += static_cast<double>(n); });
  const double mean = std::nearbyint(sum / static_cast<double>(grid.size()));
  CodedValues values{.grid = grid};
  values.step = std::fabs(mean) <= kMaxStep ? static_cast<int>(mean) : 0;
  auto integers = offsets(tensor, nibbles, values.step, grid.size());
  if (!integers) return {};
  values.integers = *std::move(integers);
  return values;
}

enum class Form : std::uint8_t { kAsTheyAre, kWide, kNibbles };

std::optional<CodedValues> in_form(const TensorEntry& tensor, Form form) {
  const bool nibbles = form == Form::kNibbles;
  std::optional<CodedValues> values =
      centred(nibbles ? nibble_grid(tensor.shape, tensor.dtype) : default_grid(tensor.shape),
              tensor, nibbles);
  if (!values) return {};
  values->nibbles = nibbles;
  values->grid.wide = form == Form::kWide;
  return values;
}

/// The first rows of a tensor.
TensorEntry some_rows(const TensorEntry& tensor) {
  TensorEntry some = tensor;
  const IntegerGrid grid = default_grid(tensor.shape);
  if (tensor.shape.size() < 2 || grid.size() <= kCompared) return some;
  some.shape[0] = std::max<std::int64_t>(kCompared / grid.cols, 1);
  some.bytes = tensor.bytes.first(tensor.bytes.size() / static_cast<std::size_t>(grid.rows) *
                                  static_cast<std::size_t>(some.shape[0]));
  return some;
}

/// So many pieces make a sample.
constexpr std::int64_t kSamplePieces = 16;

/// Pieces of a tensor at equal distances: whole rows of a matrix, if they are short.
TensorEntry sample_of(const TensorEntry& tensor, std::vector<std::byte>& held) {
  const IntegerGrid grid = default_grid(tensor.shape);
  const std::int64_t piece = kCompared / kSamplePieces;
  const bool by_rows = grid.rows >= kSamplePieces && grid.cols <= piece;
  const std::int64_t unit = by_rows ? grid.cols : 1;
  const std::int64_t units = std::min(grid.size() / unit / kSamplePieces, piece / unit);
  const auto width = static_cast<std::size_t>(dtype_bits(tensor.dtype) / 8);
  const auto bytes = static_cast<std::size_t>(units * unit) * width;
  for (std::int64_t i = 0; i < kSamplePieces; ++i) {
    const std::int64_t first = (grid.size() / unit - units) * i / (kSamplePieces - 1) * unit;
    const auto from = tensor.bytes.subspan(static_cast<std::size_t>(first) * width, bytes);
    held.insert(held.end(), from.begin(), from.end());
  }
  TensorEntry some = tensor;
  some.shape =
      by_rows ? std::vector{kSamplePieces * units, grid.cols} : std::vector{kSamplePieces * units};
  some.bytes = held;
  return some;
}

}  // namespace

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

bool has_repeats(std::span<const std::byte> bytes) {
  constexpr std::size_t kPiece = 64, kPieces = 64;  // of pieces, side by side and all over
  constexpr std::size_t kMostRepeated = kPieces * kPieces / 16;
  if (bytes.size() < kPiece * kPieces * kPieces) return true;
  const std::vector<std::byte> sample = pieces_of(bytes, kPiece, kPieces, kPieces);
  std::vector<std::uint64_t> hashes;
  for (std::size_t at = 0; at < sample.size(); at += kPiece)
    hashes.push_back(xxh3_64(std::span(sample).subspan(at, kPiece)));
  std::sort(hashes.begin(), hashes.end());
  const auto once = std::unique(hashes.begin(), hashes.end()) - hashes.begin();
  return hashes.size() - static_cast<std::size_t>(once) > kMostRepeated;
}

std::optional<PackedNumbers> packed_numbers(const TensorEntry& tensor, int threads) {
  if (!is_codable(tensor.dtype) || is_real(tensor.dtype)) return {};
  std::vector<std::byte> held;
  const TensorEntry some = sample_of(tensor, held);
  const std::optional<CodedValues> sample = whole_numbers(some, CodecProfile::kLanes);
  const std::size_t bytes = pack(some.bytes, dtype_bits(tensor.dtype) / 8).first.size();
  if (!sample || are_noise(sample->integers, bytes) || encode_section(*sample).size() >= bytes)
    return {};
  PackedNumbers packed;
  packed.form.step = sample->step;
  packed.form.nibbles = sample->nibbles;
  packed.form.grid =
      sample->nibbles ? nibble_grid(tensor.shape, tensor.dtype) : default_grid(tensor.shape);
  const codec::lanes::Shape shape(packed.form.grid);
  packed.blocks.resize(static_cast<std::size_t>(shape.blocks()));
  const std::int64_t units = sample->nibbles ? dtype_bits(tensor.dtype) / 4 : 1;
  std::atomic<bool> fits = true;
  parallel_tasks(threads, shape.blocks(), [&](std::int64_t block) {
    throw_if_interrupted();
    const std::int64_t width = dtype_bits(tensor.dtype) / 8;
    TensorEntry part = tensor;
    part.bytes = tensor.bytes.subspan(static_cast<std::size_t>(shape.first(block) / units * width),
                                      static_cast<std::size_t>(shape.size(block) / units * width));
    const auto integers = offsets(part, sample->nibbles, sample->step, shape.size(block));
    release_pages(part.bytes);
    if (integers)
      packed.blocks[static_cast<std::size_t>(block)] = pack_block(*integers);
    else
      fits = false;
  });
  check_mapped(tensor.bytes);
  if (!fits) return {};
  return packed;
}

double coded_bytes(const CodedValues& values, CodecProfile profile) {
  IntegerGrid some = values.grid;
  // The first of many tell what all of them take.
  if (some.rows == 1)
    some.cols = std::min(some.cols, kMostCounted);
  else
    some.rows = std::clamp<std::int64_t>(kMostCounted / some.cols, 1, some.rows);
  if (some.stride >= some.cols) some.stride = 0;
  double bits = estimated_bits(
      profile, some, std::span(values.integers).first(static_cast<std::size_t>(some.size())));
  bits *= static_cast<double>(values.grid.size()) / static_cast<double>(some.size());
  if (values.levels.used())
    bits += estimated_bits(profile, level_grid(values.levels, values.grid), values.level_table);
  return bits / 8;
}

std::optional<CodedValues> whole_numbers(const TensorEntry& tensor, CodecProfile profile) {
  if (!is_codable(tensor.dtype) || is_real(tensor.dtype) || tensor.bytes.empty()) return {};
  const bool small = profile == CodecProfile::kSmall;
  const auto codable = [&](const std::optional<CodedValues>& values) {
    return values && (!small || fits_small({&values->grid, 1}));
  };
  std::vector<Form> forms = {Form::kAsTheyAre};
  if (small) forms.push_back(Form::kWide);
  if (has_nibbles(tensor.dtype)) forms.push_back(Form::kNibbles);
  const TensorEntry some = some_rows(tensor);
  std::vector<std::pair<double, Form>> order;
  for (const Form form : forms)
    if (const std::optional<CodedValues> values = in_form(some, form); codable(values))
      order.emplace_back(coded_bytes(*values, profile), form);
  std::sort(order.begin(), order.end());
  for (const auto& [bytes, form] : order)
    if (std::optional<CodedValues> values = in_form(tensor, form); codable(values)) return values;
  return {};
}

}  // namespace gbcompress
