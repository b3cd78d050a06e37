#include "artifact/sections/line_prediction.h"

#include <cstring>

#include "base/float16.h"

namespace gbcompress {
namespace {

float float_of(std::uint64_t bits) {
  const auto low = static_cast<std::uint32_t>(bits);
  float value = 0;
  std::memcpy(&value, &low, sizeof value);
  return value;
}

/// One element type.
class Elements {
 public:
  explicit Elements(DType dtype)
      : dtype_(dtype), size_(static_cast<std::size_t>(dtype_bits(dtype)) / 8) {}

  std::size_t size() const { return size_; }
  double value(std::uint32_t element) const {
    const auto half = static_cast<std::uint16_t>(element);
    if (dtype_ == DType::kF16) return static_cast<double>(half_to_float(half));
    return static_cast<double>(
        float_of(dtype_ == DType::kBF16 ? std::uint32_t{half} << 16 : element));
  }
  /// The element nearest to a number; of NaN that of 0.
  std::uint32_t element(double number) const {
    const float value = number == number ? static_cast<float>(number) : 0.0F;
    if (dtype_ == DType::kF16) return float_to_half(value);
    if (dtype_ == DType::kBF16) return float_to_bfloat(value);
    std::uint32_t element = 0;
    std::memcpy(&element, &value, sizeof element);
    return element;
  }
  /// Ascends with the number; -0 is below 0.
  std::int64_t ordered(std::uint32_t element) const {
    const std::int64_t magnitude = element & (sign() - 1);
    return element & sign() ? -1 - magnitude : magnitude;
  }
  std::uint32_t element_of(std::int64_t ordered) const {
    // What no element has, which a damaged file may say, becomes one.
    if (ordered < 0) return (static_cast<std::uint32_t>(-1 - ordered) & (sign() - 1)) | sign();
    return static_cast<std::uint32_t>(ordered) & (sign() - 1);
  }

 private:
  std::uint32_t sign() const { return std::uint32_t{1} << (8 * size_ - 1); }

  DType dtype_;
  std::size_t size_;
};

/// Calls visit(element's index, its prediction) from the third element of each line on; visit gives
/// the element. begin(index, element) gets the first two.
template <typename Begin, typename Visit>
void for_lines(const LevelForm& form, std::span<const std::uint64_t> numbers, const Begin& begin,
               const Visit& visit) {
  const Elements elements(form.dtype);
  const std::size_t lines = numbers.size() / static_cast<std::size_t>(kLineNumbers);
  const auto stride = static_cast<std::size_t>(form.stride);
  const auto positions = static_cast<std::size_t>(form.positions);
  for (std::size_t line = 0; line < lines; ++line) {
    const auto factor = static_cast<double>(float_of(numbers[line]));
    const auto offset = static_cast<double>(float_of(numbers[lines + line]));
    std::size_t at = line / stride * stride * positions + line % stride;
    double values[2];
    for (std::size_t i = 0; i < 2; ++i, at += stride) {
      const auto element = static_cast<std::uint32_t>(numbers[(2 + i) * lines + line]);
      begin(at, element);
      values[i] = elements.value(element);
    }
    for (std::size_t i = 2; i < positions; ++i, at += stride) {
      // Each operation is rounded by itself.
      const double product = factor * values[1];
      const double difference = product - values[0];
      const std::uint32_t element = visit(at, elements.element(difference + offset));
      values[0] = values[1];
      values[1] = elements.value(element);
    }
  }
}

}  // namespace

bool fits_lines(std::int64_t positions, std::int64_t stride, std::int64_t elements,
                DType dtype) noexcept {
  std::int64_t step = 0;
  return positions >= 3 && stride >= 1 && dtype != DType::kF64 &&
         !__builtin_mul_overflow(positions, stride, &step) && elements % step == 0;
}

std::optional<std::vector<std::int32_t>> line_residuals(const LevelForm& form,
                                                        std::span<const std::uint64_t> numbers,
                                                        std::span<const std::byte> bytes) {
  const Elements elements(form.dtype);
  std::vector<std::int32_t> residuals(bytes.size() / elements.size());
  bool fits = true;
  for_lines(
      form, numbers, [](std::size_t, std::uint32_t) {},
      [&](std::size_t at, std::uint32_t predicted) {
        std::uint32_t element = 0;
        std::memcpy(&element, bytes.data() + at * elements.size(), elements.size());
        const std::int64_t residual = elements.ordered(element) - elements.ordered(predicted);
        fits = fits && residual >= -kMaxMagnitude && residual <= kMaxMagnitude;
        residuals[at] = fits ? static_cast<std::int32_t>(residual) : 0;
        return element;
      });
  if (!fits) return {};
  return residuals;
}

std::vector<std::byte> from_line_residuals(const LevelForm& form,
                                           std::span<const std::uint64_t> numbers,
                                           std::span<const std::int32_t> residuals) {
  const Elements elements(form.dtype);
  std::vector<std::byte> bytes(residuals.size() * elements.size());
  const auto put = [&](std::size_t at, std::uint32_t element) {
    std::memcpy(bytes.data() + at * elements.size(), &element, elements.size());
  };
  for_lines(form, numbers, put, [&](std::size_t at, std::uint32_t predicted) {
    const std::uint32_t element = elements.element_of(elements.ordered(predicted) + residuals[at]);
    put(at, element);
    return element;
  });
  return bytes;
}

}  // namespace gbcompress
