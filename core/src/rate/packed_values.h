#pragma once
/// Integers that were chosen, in as few bytes as the largest of them needs.

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "gbcompress/artifact.h"

namespace gbcompress {

/// CodedValues in a quarter of their memory where integers are small, as those of most weights are.
/// Copies share the integers.
class PackedValues {
 public:
  explicit PackedValues(CodedValues values);
  /// Without the integers.
  const CodedValues& form() const noexcept { return form_; }
  std::int64_t size() const noexcept;
  /// Bytes that the integers take.
  std::int64_t bytes() const noexcept;
  CodedValues unpacked() const;

 private:
  using Integers =
      std::variant<std::vector<std::int8_t>, std::vector<std::int16_t>, std::vector<std::int32_t>>;
  CodedValues form_;
  std::shared_ptr<const Integers> integers_;
};

}  // namespace gbcompress
