#include <algorithm>
#include <functional>
#include <string_view>

#include "base/file.h"
#include "gbcompress/error.h"
#include "gbcompress/registry.h"
#include "plugin/elf_check.h"
#include "plugin/read_plugin.h"
#include "plugin/refuse.h"

namespace gbcompress {
namespace {

constexpr std::size_t kMaxFile = std::size_t{256} << 20;
constexpr std::size_t kMaxMarker = 512;  // of text behind the prefix
constexpr std::size_t kMaxFields = 16;

/// Put together at run time: this program must not contain the prefix itself.
std::string marker_prefix() {
  std::string prefix = "@(#)";
  prefix += "gbcompress-";
  return prefix += "plugin ";
}

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

/// The zero-terminated text behind the only marker prefix of the file.
std::string_view find_marker(std::string_view text, const std::string& label) {
  const std::string prefix = marker_prefix();
  const std::boyer_moore_horspool_searcher searcher(prefix.begin(), prefix.end());
  const auto first = std::search(text.begin(), text.end(), searcher);
  if (first == text.end())
    refuse_plugin(label,
                  "has no gbcompress plugin marker; it is a library of another kind, or was built "
                  "without GBC_PLUGIN");
  const auto begin = first + static_cast<std::ptrdiff_t>(prefix.size());
  if (std::search(begin, text.end(), searcher) != text.end())
    refuse_plugin(label, "has two gbcompress plugin markers; use GBC_PLUGIN once in a library");
  const std::string_view rest(begin, text.end());
  const std::size_t length = rest.substr(0, kMaxMarker).find('\0');
  if (length == std::string_view::npos)
    refuse_plugin(label, "is damaged: its marker does not end within " +
                             std::to_string(kMaxMarker) + " characters");
  return rest.substr(0, length);
}

std::vector<std::string_view> split_at_blanks(std::string_view text) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t blank = text.find(' ');
    words.push_back(text.substr(0, blank));
    if (blank == std::string_view::npos) return words;
    text.remove_prefix(blank + 1);
  }
}

PluginFingerprint parse_marker(std::string_view marker, const std::string& label) {
  const auto damaged = [&] {
    refuse_plugin(label,
                  "is damaged: its marker reads \"" + printable(marker.substr(0, 80)) + "\"");
  };
  for (char c : marker)
    if (c < ' ' || c > '~') damaged();
  const auto words = split_at_blanks(marker);
  if (words.size() < 3 || words.size() > 2 + kMaxFields) damaged();
  PluginFingerprint result;
  result.name = words[0];
  result.version = words[1];
  if (!good_name(result.name) || result.version.empty()) damaged();
  for (std::size_t i = 2; i < words.size(); ++i) {
    const std::size_t equals = words[i].find('=');
    if (equals == 0 || equals == std::string_view::npos) damaged();
    result.fields.emplace_back(words[i].substr(0, equals), words[i].substr(equals + 1));
  }
  return result;
}

}  // namespace

std::string PluginFingerprint::text() const {
  std::string result;
  for (const auto& [key, value] : fields) {
    if (!result.empty()) result += ' ';
    result += key + '=' + value;
  }
  return result;
}

PluginFingerprint scan_plugin(std::span<const std::byte> bytes, const std::string& label) {
  const std::string damage = elf_damage(bytes);
  if (!damage.empty()) refuse_plugin(label, damage);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return parse_marker(find_marker(text, label), label);
}

std::vector<std::byte> read_plugin(const std::filesystem::path& file) {
  try {
    return read_file(file, kMaxFile);
  } catch (const Error& error) {
    if (error.code() != Errc::kLimit) throw;
    refuse_plugin(printable(file.string()), "has more than 256 MiB, which no plugin needs");
  }
}

PluginFingerprint scan_plugin(const std::filesystem::path& file) {
  return scan_plugin(read_plugin(file), printable(file.string()));
}

}  // namespace gbcompress
