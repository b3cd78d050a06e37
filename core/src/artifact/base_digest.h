#pragma once
/// The digest of a model that deltas are made from (docs/reference/artifact-format.md, "Deltas").

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/digest.h"
#include "gbcompress/tensors.h"

namespace gbcompress {

class BaseDigest {
 public:
  /// The tensors in the order of their names.
  void add(const std::string& name, DType dtype, std::span<const std::int64_t> shape,
           std::span<const std::byte> bytes) {
    add(name);
    add(std::string(dtype_name(dtype)));
    std::string sides;
    for (const std::int64_t side : shape) sides += std::to_string(side) + ",";
    add(sides);
    hash_.update(bytes);
  }
  /// In hexadecimal; call once.
  std::string finish() { return to_hex(hash_.finish()); }

 private:
  void add(const std::string& text) {
    // With its end, so that no two lists of words are the same bytes.
    hash_.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  }

  Sha256 hash_;
};

}  // namespace gbcompress
