#include "rate/packed_values.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gbcompress {

PackedValues::PackedValues(CodedValues values) {
  std::vector<std::int32_t> integers = std::move(values.integers);
  values.integers = {};
  form_ = std::move(values);
  std::int32_t least = 0, largest = 0;
  for (const std::int32_t x : integers) {
    least = std::min(least, x);
    largest = std::max(largest, x);
  }
  const auto fit = [&]<typename T>(T) {
    return least >= std::numeric_limits<T>::min() && largest <= std::numeric_limits<T>::max();
  };
  const auto narrow = [&]<typename T>(T) {
    std::vector<T> packed(integers.size());
    std::ranges::transform(integers, packed.begin(),
                           [](std::int32_t x) { return static_cast<T>(x); });
    return std::make_shared<const Integers>(std::move(packed));
  };
  if (fit(std::int8_t{}))
    integers_ = narrow(std::int8_t{});
  else if (fit(std::int16_t{}))
    integers_ = narrow(std::int16_t{});
  else
    integers_ = std::make_shared<const Integers>(std::move(integers));
}

std::int64_t PackedValues::size() const noexcept {
  return std::visit([](const auto& packed) { return static_cast<std::int64_t>(packed.size()); },
                    *integers_);
}

std::int64_t PackedValues::bytes() const noexcept {
  return std::visit(
      [](const auto& packed) {
        return static_cast<std::int64_t>(packed.size() * sizeof packed[0]);
      },
      *integers_);
}

CodedValues PackedValues::unpacked() const {
  CodedValues values = form_;
  std::visit([&](const auto& packed) { values.integers.assign(packed.begin(), packed.end()); },
             *integers_);
  return values;
}

}  // namespace gbcompress
