#include "quantize/packed.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string_view>
#include <unordered_map>

#include "base/checked.h"
#include "base/mapped_inputs.h"
#include "format/container.h"

namespace gbcompress {
namespace {

/// Elements of packed weights, at least; those that tell them from indices; and their values.
constexpr std::int64_t kLeastElements = 64;
constexpr std::size_t kPackedSample = 4096, kLeastValues = 8;
/// Bits of an element that packs several weights, of its type's.
constexpr int kUsedBits = 3;

/// Elements at equal distances, as numbers without a sign.
std::vector<std::uint64_t> sample(const TensorEntry& tensor) {
  const auto size = static_cast<std::size_t>(dtype_bits(tensor.dtype)) / 8;
  const std::size_t count = tensor.bytes.size() / size, taken = std::min(count, kPackedSample);
  std::vector<std::uint64_t> elements(taken);
  for (std::size_t i = 0; i < taken; ++i)
    std::memcpy(&elements[i], tensor.bytes.data() + count / taken * i * size, size);
  release_pages(tensor.bytes);
  return elements;
}

bool is_small_float(DType dtype) {
  return dtype_bits(dtype) <= 8 && dtype != DType::kBool && dtype != DType::kU8 &&
         dtype != DType::kI8;
}

/// Whether an integer tensor has what indices, counters and masks lack.
bool looks_packed(const TensorEntry& tensor) {
  const int bits = dtype_bits(tensor.dtype);
  const std::vector<std::uint64_t> elements = sample(tensor);
  if (bits == 8)
    return std::set<std::uint64_t>(elements.begin(), elements.end()).size() >= kLeastValues;
  // Packed bits fill an element; the highest ones of indices are alike.
  std::set<std::uint64_t> highest;
  for (const std::uint64_t element : elements) highest.insert(element >> (bits - kUsedBits));
  return highest.size() > 2;
}

bool is_packed(const TensorEntry& tensor) {
  if (tensor.name == kContainerName || tensor.bytes.empty()) return false;
  if (checked_elements(tensor.shape, "a tensor") < kLeastElements) return false;
  if (is_small_float(tensor.dtype)) return true;
  switch (tensor.dtype) {
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kU32:
    case DType::kI32:
      return looks_packed(tensor);
    default:
      return false;
  }
}

std::string_view module_of(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : name.substr(0, dot);
}

}  // namespace

std::vector<bool> packed_parameters(const TensorBundle& bundle) {
  // The largest packed tensor by its module and by its own name.
  std::unordered_map<std::string_view, std::int64_t> of_module, of_name;
  for (const TensorEntry& tensor : bundle.tensors) {
    if (!is_packed(tensor)) continue;
    const std::int64_t elements = checked_elements(tensor.shape, "a tensor");
    for (auto [map, key] : {std::pair{&of_module, module_of(tensor.name)},
                            std::pair{&of_name, std::string_view(tensor.name)}})
      (*map)[key] = std::max((*map)[key], elements);
  }
  std::vector<bool> found(bundle.tensors.size(), false);
  if (of_name.empty()) return found;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const TensorEntry& tensor = bundle.tensors[i];
    if (!is_real(tensor.dtype)) continue;
    const std::string_view name = tensor.name;
    std::int64_t packed = 0;
    const auto look = [&](const auto& map, std::string_view key) {
      if (const auto at = map.find(key); at != map.end()) packed = std::max(packed, at->second);
    };
    // Names without a dot have no module.
    if (name.find('.') != std::string_view::npos) look(of_module, module_of(name));
    for (std::size_t end = name.find_last_of("._"); end != std::string_view::npos && end > 0;
         end = name.find_last_of("._", end - 1))
      look(of_name, name.substr(0, end));
    found[i] = packed >= checked_elements(tensor.shape, "a tensor");
  }
  return found;
}

}  // namespace gbcompress
