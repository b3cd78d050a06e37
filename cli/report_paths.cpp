#include "report_paths.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

/// What may stand before a path: "mnist:DIR", "--model=FILE", "A,B", quotes, spaces.
bool begins_path(const std::string& text, std::size_t at) {
  return at == 0 || std::string_view("=:,;'\"`( \n").find(text[at - 1]) != std::string_view::npos;
}

/// Takes the folders off absolute paths, and off those from the home folder.
std::string cut_absolute(const std::string& text) {
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const bool absolute = begins_path(text, i) && (text[i] == '/' || text.compare(i, 2, "~/") == 0);
    const std::size_t end = std::min(text.find_first_of(",;'\"`()\n :", i + 1), text.size());
    if (!absolute || end == i + 1 || (text[i + 1] == '/' && text[i] == '/')) {
      result += text[i++];
      continue;
    }
    std::size_t last = end;
    while (last > i + 1 && text[last - 1] == '/') --last;  // of a folder, its own name
    const std::size_t name = text.rfind('/', last - 1) + 1;
    result += text.substr(name, end - name);
    i = end;
  }
  return result;
}

/// Parts of a word of the command line that may be paths.
std::vector<std::string> parts_of(const std::string& word) {
  std::vector<std::string> parts = {word};
  for (std::size_t i = 0; i < word.size(); ++i)
    if (word[i] == '=' || word[i] == ':' || word[i] == ',')
      for (const std::string& rest :
           {word.substr(i + 1), word.substr(i + 1, word.find(',', i + 1) - i - 1)})
        parts.push_back(rest);
  parts.push_back(word.substr(0, word.find(',')));
  return parts;
}

}  // namespace

void KnownFolders::add(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || slash == 0) return;
  std::error_code ignored;
  const std::string folder = path.substr(0, slash);
  // A pattern of tensors ("encoder/*") is no path.
  if (fs::is_directory(folder, ignored)) folders_.push_back(folder + "/");
}

KnownFolders::KnownFolders(const Arguments& arguments) {
  std::error_code ignored;
  const fs::path here = fs::current_path(ignored);
  for (const std::string& word : arguments.call().arguments)
    for (const std::string& part : parts_of(word)) {
      if (part.empty() || part.size() > 4096) continue;
      add(part);
      if (part.find('/') == std::string::npos) continue;
      add((here / part).string());
      add(fs::weakly_canonical(here / part, ignored).string());
    }
  if (here != "/") folders_.push_back(here.string() + "/");
  std::sort(folders_.begin(), folders_.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() > b.size() : a < b;
  });
  folders_.erase(std::unique(folders_.begin(), folders_.end()), folders_.end());
}

std::string KnownFolders::without(std::string text) const {
  for (const std::string& folder : folders_)
    for (std::size_t at = 0; (at = text.find(folder, at)) != std::string::npos;)
      if (begins_path(text, at))
        text.erase(at, folder.size());
      else
        ++at;
  return cut_absolute(text);
}

void KnownFolders::remove_from(ordered_json& value) const {
  if (value.is_string()) {
    value = without(value.get<std::string>());
  } else if (value.is_array()) {
    for (ordered_json& each : value) remove_from(each);
  } else if (value.is_object()) {
    for (auto& [key, each] : value.items())
      if (key != "tensors" && key != "histograms" && key != "name") remove_from(each);
  }
}

}  // namespace gbcompress::cli
