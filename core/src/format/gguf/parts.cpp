#include "format/gguf/parts.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "format/container.h"
#include "gbcompress/error.h"

namespace gbcompress::gguf {
namespace {

namespace fs = std::filesystem;

/// "-00001-of-00003.gguf"
constexpr std::size_t kDigits = 5;
constexpr std::string_view kOf = "-of-", kEnd = ".gguf";
constexpr std::size_t kTail = 1 + kDigits + kOf.size() + kDigits + kEnd.size();

std::string digits(std::uint64_t number) {
  std::string text = std::to_string(number);
  return std::string(kDigits - std::min(kDigits, text.size()), '0') + text;
}

std::optional<std::uint64_t> number_in(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return number;
}

std::string of_parts(std::uint64_t number, std::uint64_t count) {
  return "part " + std::to_string(number) + " of " + std::to_string(count);
}

}  // namespace

std::string PartName::file(std::uint64_t other) const {
  return stem + "-" + digits(other) + std::string(kOf) + digits(count) + std::string(kEnd);
}

std::optional<PartName> part_name(const fs::path& file) {
  const std::string name = file.filename().string();
  if (name.size() <= kTail) return {};
  const std::string_view tail = std::string_view(name).substr(name.size() - kTail);
  const auto number = number_in(tail.substr(1, kDigits));
  const auto count = number_in(tail.substr(1 + kDigits + kOf.size(), kDigits));
  if (tail[0] != '-' || tail.substr(1 + kDigits, kOf.size()) != kOf || !tail.ends_with(kEnd) ||
      !number || !count || *number < 1 || *number > *count)
    return {};
  return PartName{name.substr(0, name.size() - kTail), *number, *count};
}

PartFiles part_files(const fs::path& path, const GgufFile& model) {
  if (model.parts < 2) return {{path}};
  const std::string one = "this file is " + of_parts(model.part + 1, model.parts) + " of a model";
  const std::optional<PartName> name = part_name(path);
  if (!name || name->number != 1 || model.parts > kMaxContainerFiles ||
      !is_file_name(name->file(1)))
    return {
        {path},
        one + "; compress each part, or name the first one (" +
            (name ? printable(name->file(1)) : "NAME-00001-of-" + digits(model.parts) + ".gguf") +
            ") with the others beside it"};
  check_part(model, 0, name->count, printable(path.string()));
  PartFiles parts;
  std::string missing;
  for (std::uint64_t number = 1; number <= name->count; ++number) {
    parts.files.push_back(number == 1 ? path : path.parent_path() / name->file(number));
    std::error_code ignored;
    if (!fs::exists(parts.files.back(), ignored) && missing.empty())
      missing = printable(name->file(number));
  }
  if (missing.empty()) return parts;
  return {
      {path},
      "warning: " + one + ", and " + missing +
          " is not beside it: this part alone is compressed; put the others into its folder, or "
          "compress each"};
}

void check_part(const GgufFile& model, std::uint64_t part, std::uint64_t parts,
                const std::string& label) {
  if (model.part == part && model.parts == parts) return;
  throw Error(Errc::kCorrupt,
              label + " is " + of_parts(part + 1, parts) + " by its name and " +
                  (model.parts < 2 ? "no part of a model" : of_parts(model.part + 1, model.parts)) +
                  " by its metadata; load the parts again, or compress each under another name");
}

}  // namespace gbcompress::gguf
