#include "format/folder/weight_files.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/folder.h"
#include "format/folder/components.h"
#include "format/folder/left_out.h"
#include "format/model_folder.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "gbcompress/tensors.h"

namespace gbcompress {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kPartOf = "-of-";
constexpr std::size_t kDigits = 5;

using Names = std::map<std::string, WeightFiles>;

bool is_number(std::string_view text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isdigit(c) != 0;
         });
}

/// Where "-00001-of-00002" begins in a name, or npos.
std::size_t part_at(std::string_view stem) {
  const std::size_t of = stem.rfind(kPartOf);
  if (of == std::string_view::npos || of < kDigits + 1) return std::string_view::npos;
  const std::size_t begin = of - kDigits - 1, end = of + kPartOf.size() + kDigits;
  const bool fits = stem[begin] == '-' && is_number(stem.substr(begin + 1, kDigits)) &&
                    end <= stem.size() && is_number(stem.substr(of + kPartOf.size(), kDigits)) &&
                    (end == stem.size() || stem[end] == '.');
  return fits ? begin : std::string_view::npos;
}

/// torch.save writes files of any name; these are the model's: "pytorch_model.bin",
/// "adapter_model.fp16.bin".
bool is_pickled_model(std::string_view stem) {
  const std::size_t at = stem.rfind("_model");
  if (at == std::string_view::npos) return false;
  const std::size_t end = at + std::string_view("_model").size();
  return end == stem.size() || stem[end] == '.' || part_at(stem) == end;
}

void add_file(Names& names, const std::string& file, std::string_view end) {
  std::string stem = file.substr(0, file.size() - end.size());
  const std::size_t at = part_at(stem);
  if (at == std::string::npos) {
    names[stem].whole.push_back(file);
    return;
  }
  const std::string part = stem.substr(at, 2 * (kDigits + 1) + kPartOf.size() - 1);
  stem.erase(at, part.size());
  WeightFiles& files = names[stem];
  files.parts.push_back(file);
  files.count = std::max<std::size_t>(files.count, std::stoul(part.substr(part.size() - kDigits)));
}

/// "model.safetensors.index.fp16.json" is the index of "model.fp16".
void add_index(Names& names, const std::string& file, std::string_view end) {
  const std::size_t at = file.find(std::string(end) + std::string(kIndexMark));
  const std::size_t rest = at + end.size() + kIndexMark.size() - 1;
  const std::string variant =
      file.substr(rest, std::max(file.size() - std::string_view(".json").size(), rest) - rest);
  names[file.substr(0, at) + variant].index = file;
}

Names names_of(const fs::path& folder, std::string_view end) {
  Names names;
  std::error_code ignored;
  for (const std::string& file : names_in(folder)) {
    const bool index = is_model_index(file) &&
                       file.find(std::string(end) + std::string(kIndexMark)) != std::string::npos;
    const bool weights = file.ends_with(end) && is_weights_name(file);
    if ((!index && !weights) || fs::is_directory(folder / file, ignored)) continue;
    index ? add_index(names, file, end) : add_file(names, file, end);
  }
  for (auto& [name, files] : names) files.name = name;
  return names;
}

/// Whether there is the same name without its last words: "unet" of "unet.fp16".
bool is_variant(const std::string& name, const Names& names) {
  for (std::size_t dot = name.rfind('.'); dot != std::string::npos && dot > 0;
       dot = name.rfind('.', dot - 1))
    if (names.contains(name.substr(0, dot))) return true;
  return false;
}

std::vector<std::string> files_of(const WeightFiles& files) {
  std::vector<std::string> all;
  if (!files.index.empty()) all.push_back(files.index);
  all.insert(all.end(), files.whole.begin(), files.whole.end());
  all.insert(all.end(), files.parts.begin(), files.parts.end());
  return all;
}

[[noreturn]] void refuse_several(const fs::path& folder,
                                 const std::vector<const WeightFiles*>& found) {
  std::vector<std::string> names;
  for (const WeightFiles* files : found) {
    const std::vector<std::string> all = files_of(*files);
    names.push_back(all.front());
  }
  throw Error(Errc::kUsage, printable(folder.string()) +
                                " holds several models, or several copies of one: " +
                                names_text(names) + "; name one of these files");
}

/// @param usual  the name that libraries look for
/// @return nullptr where no name tells
const WeightFiles* choose(const fs::path& folder, const Names& names, const std::string& usual) {
  std::vector<const WeightFiles*> plain, indices, parts;
  for (const auto& [name, files] : names) {
    if (is_variant(name, names)) continue;
    plain.push_back(&files);
    if (!files.index.empty()) indices.push_back(&files);
    if (!files.parts.empty()) parts.push_back(&files);
  }
  if (plain.size() == 1) return plain.front();
  const auto is_usual = [&](const WeightFiles* files) { return files->name == usual; };
  for (const auto* list : {&indices, &plain, &parts}) {
    if (list->size() == 1) return list->front();
    const auto at = std::find_if(list->begin(), list->end(), is_usual);
    if (at != list->end()) return *at;
    if (list != &plain && list->size() > 1) refuse_several(folder, *list);
  }
  return nullptr;
}

/// Without an index, all parts are to be there.
void check_parts(const fs::path& folder, const WeightFiles& files) {
  if (!files.index.empty() || !files.whole.empty() || files.parts.size() == files.count) return;
  throw Error(Errc::kNotFound,
              printable(folder.string()) + " holds " + std::to_string(files.parts.size()) + " of " +
                  std::to_string(files.count) + " parts of " + printable(files.name) + ": " +
                  names_text(files.parts) + "; download the others");
}

[[noreturn]] void refuse_none(const fs::path& folder) {
  std::vector<std::string> within;
  for (const fs::path& each : component_folders(folder)) within.push_back(each.generic_string());
  const std::string label = printable(folder.string());
  if (within.empty())
    throw Error(Errc::kNotFound,
                label + " holds no .safetensors file, no pytorch_model.bin and no index of them");
  throw Error(Errc::kNotFound, label + " holds no weights itself, its subfolders do: " +
                                   names_text(within) + "; name one of them");
}

}  // namespace

bool is_weights_name(std::string_view name) {
  const auto stem = [&](std::string_view end) {
    return name.size() > end.size() && name.ends_with(end)
               ? name.substr(0, name.size() - end.size())
               : std::string_view();
  };
  return !stem(kSafetensorsEnd).empty() || is_pickled_model(stem(kPickledEnd));
}

bool holds_weights(const fs::path& folder) {
  return !names_of(folder, kSafetensorsEnd).empty() || !names_of(folder, kPickledEnd).empty();
}

FolderWeights weights_in(const fs::path& folder) {
  const Names safe = names_of(folder, kSafetensorsEnd), pickled = names_of(folder, kPickledEnd);
  const Names& names = safe.empty() ? pickled : safe;
  if (names.empty()) refuse_none(folder);
  FolderWeights result;
  const WeightFiles* chosen = choose(folder, names, safe.empty() ? "pytorch_model" : "model");
  if (chosen) {
    check_parts(folder, *chosen);
    result.chosen = *chosen;
  }
  if (chosen && chosen->index.empty() && !chosen->whole.empty())
    result.others.swap(result.chosen.parts);
  for (const auto& [name, files] : names) {
    if (&files == chosen) continue;
    auto& to = !chosen && !is_variant(name, names) ? result.together : result.others;
    for (const std::string& file : files_of(files)) to.push_back(file);
  }
  std::sort(result.others.begin(), result.others.end());
  return result;
}

std::string weights_name(const fs::path& folder) {
  if (!holds_weights(folder)) {
    const std::vector<std::string> found = artifacts_in(folder);
    return found.size() == 1 ? fs::path(found[0]).stem().string() : "model";
  }
  const std::string name = weights_in(folder).chosen.name;
  // The same weights as safetensors have the shorter name in Hugging Face's libraries.
  return name.empty() || name == "pytorch_model" ? "model" : name;
}

}  // namespace gbcompress
