#include "gbcompress/registry.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "base/file.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {
namespace fs = std::filesystem;

struct TemplateFile {
  std::string_view name, text;
};
constexpr TemplateFile kFiles[] = {
#include "template_files.inc"
};

bool good_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && name.front() >= 'a' && name.front() <= 'z' &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

/// "row_wise" as a module is called: "RowWise".
std::string camel(std::string_view name) {
  std::string result;
  bool upper = true;
  for (char c : name) {
    if (c == '_') {
      upper = true;
      continue;
    }
    result += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    upper = false;
  }
  return result;
}

std::string filled(std::string text, std::string_view placeholder, const std::string& value) {
  for (std::size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos;
       at += value.size())
    text.replace(at, placeholder.size(), value);
  return text;
}

void write_files(const std::string& name, const fs::path& folder) {
  for (const TemplateFile& file : kFiles) {
    const std::string text =
        filled(filled(std::string(file.text), "@NAME@", name), "@CAMEL@", camel(name));
    AtomicFile out(folder / (file.name == "plugin.cpp.in" ? name + ".cpp" : std::string(file.name)),
                   false);
    out.write(std::as_bytes(std::span(text)));
    out.commit();
  }
}

}  // namespace

void write_plugin_template(const std::string& name, const fs::path& folder) {
  if (!good_name(name))
    throw Error(Errc::kUsage, "\"" + printable(name) +
                                  "\" cannot be a plugin's name; give up to 64 of [a-z0-9_], "
                                  "beginning with a letter");
  std::error_code failed;
  if (fs::exists(fs::symlink_status(folder, failed)))
    throw Error(Errc::kExists,
                printable(folder.string()) + " exists; a new plugin needs a folder of its own");
  failed.clear();
  if (!fs::create_directory(folder, failed))
    throw Error(Errc::kIo, printable(folder.string()) + " cannot be created: " + failed.message());
  try {
    write_files(name, folder);
  } catch (...) {
    fs::remove_all(folder, failed);
    throw;
  }
}

}  // namespace gbcompress
