#include "quantize/kinds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "format/torch/training_state.h"

namespace gbcompress {
namespace {

constexpr std::int64_t kVectorNumbers = 16384, kTinyNumbers = 64;
/// An arithmetic progression has at least so many numbers, and differences that deviate by at most
/// this share of their mean.
constexpr std::size_t kProgression = 9;
constexpr double kEven = 1e-3;

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
constexpr std::array<std::string_view, 5> kScales = {"scale", "scales", "absmax", "qzeros",
                                                     "zero_point"};
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
  return std::any_of(words.begin(), words.end(),
                     [&](std::string_view word) { return ends_in(name, word); });
}

bool is_progression(std::span<const float> values) {
  if (values.size() < kProgression) return false;
  const auto n = static_cast<double>(values.size() - 1);
  const double mean = (static_cast<double>(values.back()) - static_cast<double>(values[0])) / n;
  double squares = 0;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const double off = static_cast<double>(values[i]) - static_cast<double>(values[i - 1]) - mean;
    squares += off * off;
  }
  return std::sqrt(squares / n) < kEven * std::fabs(mean);
}

/// Of a tensor of finite elements that a graph tells to be a weight or the vector of an operator.
WeightKind hinted_kind(const TensorHint& hint, std::span<const float> values) {
  if (hint.kind == TensorHint::Kind::kExact) return WeightKind::kExact;
  const bool weight = hint.kind == TensorHint::Kind::kWeight;
  return weight && values.size() >= static_cast<std::size_t>(kTinyNumbers) ? WeightKind::kMatrix
                                                                           : WeightKind::kVector;
}

}  // namespace

bool is_additive_mask(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(), [](float value) {
    return value == 0 || value == -std::numeric_limits<float>::infinity();
  });
}

bool holds_non_numbers(const TensorEntry& tensor, std::span<const float> values) {
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  if (finite || is_additive_mask(values)) return false;
  if (tensor.dtype != DType::kF64) return true;
  // Numbers above float32's range are numbers.
  for (std::size_t i = 0; i < tensor.bytes.size(); i += sizeof(double)) {
    double value;
    std::memcpy(&value, tensor.bytes.data() + i, sizeof value);
    if (!std::isfinite(value)) return true;
  }
  return false;
}

WeightKind weight_kind(const TensorEntry& tensor, std::span<const float> values,
                       const TensorHint* hint) {
  const bool hinted = hint && hint->kind != TensorHint::Kind::kUnknown;
  if (values.size() < 2 || (!hinted && is_training_tensor(tensor.name))) return WeightKind::kExact;
  bool alike = true;
  for (const float value : values) {
    if (!std::isfinite(value)) return WeightKind::kExact;
    alike = alike && value == values[0];
  }
  if (alike) return WeightKind::kExact;
  if (hinted) return hinted_kind(*hint, values);
  const std::string name = lower(tensor.name);
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t rows = tensor.shape.empty() ? 1 : tensor.shape[0], cols = n / rows;
  const bool line = std::min(rows, cols) == 1 && n < kVectorNumbers;
  if (line || n < kTinyNumbers)
    return ends_in_one_of(name, kTables) || is_progression(values) ? WeightKind::kExact
                                                                   : WeightKind::kVector;
  return ends_in_one_of(name, kScales) ? WeightKind::kVector : WeightKind::kMatrix;
}

}  // namespace gbcompress
