#include "artifact/header/header.h"

#include <algorithm>
#include <cstring>

#include "artifact/integers/integers.h"
#include "artifact/sections/coding.h"
#include "base/checked.h"
#include "format/gguf/block_fields.h"

namespace gbcompress {

bool Header::any_small_section() const noexcept {
  return std::any_of(tensors.begin(), tensors.end(), [](const ArtifactTensor& tensor) {
    return (has_values(tensor) || has_coded_theta(tensor)) &&
           tensor.profile == CodecProfile::kSmall;
  });
}

bool needs_base(const ArtifactTensor& tensor) noexcept {
  bool any = false;
  for_bases(tensor, [&](std::size_t) { any = true; });
  return any;
}

std::vector<std::int64_t> piece_shape(const std::vector<std::int64_t>& shape,
                                      std::int64_t elements) {
  const std::int64_t row = shape.empty() ? 0 : shape.back();
  if (shape.size() < 2 || row < 1 || elements % row != 0) return {elements};
  return {elements / row, row};
}

int StepPredictor::expected(const ArtifactTensor* tensor) const {
  if (!tensor) return last_;
  const auto found = of_key_.find(key(*tensor));
  return found == of_key_.end() ? last_ : found->second;
}

void StepPredictor::saw(const ArtifactTensor* tensor, int step) {
  last_ = step;
  if (tensor) of_key_[key(*tensor)] = step;
}

std::string StepPredictor::key(const ArtifactTensor& tensor) {
  const std::size_t dot = tensor.name.rfind('.');
  return std::to_string(tensor.shape.size()) +
         tensor.name.substr(dot == std::string::npos ? 0 : dot + 1);
}

bool is_base_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::vector<std::byte> simple_element(DType dtype, int value) {
  std::vector<std::byte> element(static_cast<std::size_t>(dtype_bits(dtype) / 8));
  const auto real = static_cast<float>(value);
  if (dtype == DType::kF32)
    std::memcpy(element.data(), &real, sizeof real);
  else if (dtype == DType::kI64)
    element[0] = static_cast<std::byte>(value);
  else
    element.clear();
  return element;
}

std::int64_t tensor_bytes(const std::vector<std::int64_t>& shape, DType dtype) {
  const std::int64_t bits =
      checked_mul(checked_elements(shape, "a tensor"), dtype_bits(dtype), "a tensor");
  if (bits % 8 != 0)
    throw Error(Errc::kCorrupt,
                "a tensor of " + std::string(dtype_name(dtype)) + " does not fill whole bytes");
  return bits / 8;
}

ArtifactTensor base_form(const ArtifactTensor& tensor) {
  ArtifactTensor form;
  const bool made = tensor.kind == TensorKind::kBlocks;
  form.name = made ? tensor.source.name : tensor.name;
  form.dtype = made ? tensor.source.dtype : tensor.dtype;
  form.shape = made ? tensor.source.shape : tensor.shape;
  return form;
}

std::int64_t block_elements(const ArtifactTensor& tensor) {
  const gguf::BlockLayout* const layout = gguf::find_block_layout(tensor.block_type);
  return tensor_bytes(tensor.shape, tensor.dtype) / layout->bytes * layout->weights();
}

bool is_within(const BlockSource& source, std::int64_t elements) {
  const std::int64_t all = checked_elements(source.shape, "a tensor of the base");
  return elements > 0 && source.first <= all && elements <= all - source.first;
}

std::int64_t plane_bytes(const ArtifactTensor& tensor) {
  if (tensor.kind == TensorKind::kGenerated) return element_bytes(tensor.coding);
  return std::max(1, dtype_bits(tensor.dtype) / 8);
}

}  // namespace gbcompress
