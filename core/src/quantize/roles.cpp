#include "quantize/roles.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string_view>

#include "format/torch/training_state.h"
#include "gbcompress/error.h"
#include "quantize/structure.h"

namespace gbcompress {
namespace {

constexpr std::size_t kTinyNumbers = 64;
constexpr std::size_t kNamed = 3;

/// Lines and tiny tensors that are no parameters, and whose values do not tell it.
constexpr std::array<std::string_view, 17> kTables = {"table",
                                                      "mask",
                                                      "idx",
                                                      "index",
                                                      "position_ids",
                                                      "inv_freq",
                                                      "freq",
                                                      "freqs",
                                                      "window",
                                                      "anchor",
                                                      "anchors",
                                                      "zero_point",
                                                      "num_batches_tracked",
                                                      "step",
                                                      "scale",
                                                      "scales",
                                                      "frequencies"};
/// Matrices that scale weights which another file holds.
constexpr std::array<std::string_view, 4> kScales = {"scale", "scales", "absmax", "zero_point"};

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return result;
}

/// Whether `name` is `word` or ends in it behind a dot or an underscore.
bool ends_in(std::string_view name, std::string_view word) {
  if (!name.ends_with(word)) return false;
  if (name.size() == word.size()) return true;
  const char before = name[name.size() - word.size() - 1];
  return before == '.' || before == '_';
}

template <std::size_t N>
bool ends_in_one_of(std::string_view name, const std::array<std::string_view, N>& words) {
  const std::string small = lower(name);
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return ends_in(small, word); });
}

/// Without a branch for each value.
bool all_finite(std::span<const float> values) {
  constexpr std::int32_t kExponent = 0x7f800000;
  std::int32_t largest = 0;
  for (const float value : values) {
    std::int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    largest = std::max(largest, bits & kExponent);
  }
  return largest < kExponent;
}

bool is_additive_mask(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) {
    return value == 0 || value == -std::numeric_limits<float>::infinity();
  });
}

/// Of a float64 tensor: whether the element itself is finite.
bool is_finite_element(const TensorEntry& tensor, std::size_t index) {
  if (tensor.dtype != DType::kF64) return false;
  double value = 0;
  std::memcpy(&value, tensor.bytes.data() + index * sizeof value, sizeof value);
  return std::isfinite(value);
}

}  // namespace

bool is_line(const std::vector<std::int64_t>& shape) noexcept {
  return std::count_if(shape.begin(), shape.end(), [](std::int64_t side) { return side > 1; }) <= 1;
}

WeightKind weight_kind(const TensorEntry& tensor, std::span<const float> values, bool packed,
                       const TensorHint* hint) {
  const bool hinted = hint && hint->kind != TensorHint::Kind::kUnknown;
  if (values.size() < 2 || (!hinted && is_training_tensor(tensor.name))) return WeightKind::kExact;
  if (packed || !all_finite(values)) return WeightKind::kExact;
  if (std::ranges::all_of(values, [&](float value) { return value == values[0]; }))
    return WeightKind::kExact;
  const bool line = is_line(tensor.shape) || values.size() < kTinyNumbers;
  const bool weight = hinted && hint->kind == TensorHint::Kind::kWeight;
  if (hinted && hint->kind == TensorHint::Kind::kExact) return WeightKind::kExact;
  if (!weight && is_structure(values, tensor.shape, tensor.dtype, line)) return WeightKind::kExact;
  if (hinted) return line || !weight ? WeightKind::kVector : WeightKind::kMatrix;
  if (line) return ends_in_one_of(tensor.name, kTables) ? WeightKind::kExact : WeightKind::kVector;
  return ends_in_one_of(tensor.name, kScales) ? WeightKind::kVector : WeightKind::kMatrix;
}

std::string bias_of(const std::string& name) {
  constexpr std::string_view kWeight = "weight";
  const std::size_t at = name.rfind(kWeight);
  if (at == std::string::npos || name.find('.', at) != std::string::npos) return "";
  return name.substr(0, at) + "bias" + name.substr(at + kWeight.size());
}

std::optional<NotFinite> not_finite(const TensorEntry& tensor, std::span<const float> values) {
  if (all_finite(values)) return {};
  NotFinite facts;
  std::size_t first = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i]) || is_finite_element(tensor, i)) continue;
    if (facts.count++ == 0) first = i;
  }
  if (facts.count == 0 || is_additive_mask(values)) return {};
  const std::size_t rows = tensor.shape.empty() ? 1 : static_cast<std::size_t>(tensor.shape[0]);
  facts.first_row = static_cast<std::int64_t>(first / (values.size() / rows));
  return facts;
}

std::string not_finite_note(const std::vector<NotFiniteTensor>& tensors) {
  if (tensors.empty()) return "";
  std::string text = tensors.size() == 1 ? "1 tensor with NaN or infinity is stored exactly: "
                                         : std::to_string(tensors.size()) +
                                               " tensors with NaN or infinity are stored exactly: ";
  for (std::size_t i = 0; i < std::min(kNamed, tensors.size()); ++i) {
    const NotFinite& facts = tensors[i].facts;
    text += (i > 0 ? ", " : "") + printable(tensors[i].name) + " (" + std::to_string(facts.count) +
            (facts.count == 1 ? " value, row " : " values, first in row ") +
            std::to_string(facts.first_row) + ")";
  }
  return text + (tensors.size() > kNamed ? ", ..." : "");
}

}  // namespace gbcompress
