#pragma once
/// The element types of ggml that GGUF files name by number
/// (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {
namespace gguf {

inline constexpr std::uint32_t kQ8_0 = 8;

/// A row is made of whole blocks.
struct Type {
  std::uint32_t number = 0;
  std::string_view name;
  std::int64_t elements = 1, bytes = 1;  ///< of a block
  std::optional<DType> dtype;            ///< unset: the blocks are kept as bytes
};

/// nullptr for a number that this program does not know.
const Type* find_type(std::uint32_t number) noexcept;

/// "Q8_0"; "type 99" where there is no name.
std::string type_name(std::uint32_t number);

}  // namespace gguf
}  // namespace gbcompress
