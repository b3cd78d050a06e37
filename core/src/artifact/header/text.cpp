#include "artifact/header/text.h"

#include <cstdint>

namespace gbcompress {
namespace {

constexpr std::uint32_t kNone = 0xFFFF'FFFF;

/// The code point at `i`, which moves behind it; kNone where there is no well-formed one.
std::uint32_t next_code_point(std::string_view text, std::size_t& i) {
  const auto byte = [&](std::size_t n) {
    return n < text.size() ? static_cast<std::uint32_t>(static_cast<unsigned char>(text[n])) : 0;
  };
  const std::uint32_t lead = byte(i++);
  if (lead < 0x80) return lead;
  const int more = lead >> 5 == 6 ? 1 : lead >> 4 == 14 ? 2 : lead >> 3 == 30 ? 3 : 0;
  if (more == 0) return kNone;
  std::uint32_t point = lead & (0x3Fu >> more);
  for (int n = 0; n < more; ++n) {
    const std::uint32_t next = byte(i++);
    if (next >> 6 != 2) return kNone;
    point = point << 6 | (next & 0x3F);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0x80, 0x800, 0x1'0000};
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  return point < kSmallest[more] || point > 0x10'FFFF || surrogate ? kNone : point;
}

}  // namespace

bool is_utf8(std::string_view text) noexcept {
  for (std::size_t i = 0; i < text.size();)
    if (next_code_point(text, i) == kNone) return false;
  return true;
}

bool is_tensor_name(std::string_view text) noexcept {
  if (text.empty() || text.size() > 512) return false;
  for (std::size_t i = 0; i < text.size();) {
    const std::uint32_t point = next_code_point(text, i);
    if (point == kNone || point < 0x20 || (point >= 0x7F && point < 0xA0)) return false;
  }
  return true;
}

}  // namespace gbcompress
