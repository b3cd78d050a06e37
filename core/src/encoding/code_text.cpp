#include <charconv>

#include "gbcompress/gnet.h"

namespace gbcompress {
namespace {

std::optional<std::int64_t> parse_count(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1 ||
      value > 1'000'000'000)
    return std::nullopt;
  return value;
}

/// Splits at the first `mark`; `rest` is empty where there is none.
std::string_view cut(std::string_view& rest, char mark) {
  const std::size_t at = rest.find(mark);
  const std::string_view head = rest.substr(0, at);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(at + 1);
  return head;
}

bool parse_sides(std::string_view text, std::vector<std::int64_t>& sides) {
  if (text.empty() || text.back() == 'x') return false;
  while (!text.empty()) {
    const auto side = parse_count(cut(text, 'x'));
    if (!side || sides.size() == 8) return false;
    sides.push_back(*side);
  }
  return true;
}

}  // namespace

std::string code_text(const AxisCode& code) {
  std::string text(encoding_name(code.encoding));
  for (std::size_t d = 0; d < code.sides.size(); ++d)
    text += (d ? "x" : ":") + std::to_string(code.sides[d]);
  if (code.size != 0) text += ":" + std::to_string(code.size);
  return text;
}

std::optional<AxisCode> parse_code(std::string_view text) {
  const bool bare = text.find(':') == std::string_view::npos;
  const std::string_view name = cut(text, ':');
  for (const Encoding e : {Encoding::kBinary, Encoding::kGray, Encoding::kOneHot})
    if (encoding_name(e) == name) return bare ? std::optional<AxisCode>(e) : std::nullopt;
  AxisCode code;
  for (const Encoding e : {Encoding::kFourier, Encoding::kPixel, Encoding::kLatent})
    if (encoding_name(e) == name) code.encoding = e;
  if (code.encoding == Encoding::kBinary) return std::nullopt;
  code.size = code.encoding == Encoding::kLatent ? 2 : 4;
  bool sized = !bare;
  if (code.encoding == Encoding::kPixel) {
    sized = text.find(':') != std::string_view::npos;
    if (!parse_sides(cut(text, ':'), code.sides)) return std::nullopt;
  }
  if (!sized) return code;
  const auto size = parse_count(text);
  if (!size || *size > 1024) return std::nullopt;
  code.size = *size;
  return code;
}

}  // namespace gbcompress
