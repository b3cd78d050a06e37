#include "artifact/safetensors_shards.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string_view>

#include "format/file_kind.h"
#include "format/safetensors/safetensors.h"
#include "format/safetensors/safetensors_order.h"

namespace gbcompress {
namespace {

constexpr std::string_view kIndexEnd = ".index.json", kTorchStem = "pytorch_model", kStem = "model",
                           kSuffix = ".safetensors";

/// The name that the shard "pytorch_model-00001-of-00002.bin" has as a safetensors file.
std::string shard_name(const std::string& torch) {
  std::string name = std::filesystem::path(torch).stem().string();
  if (name.starts_with(kTorchStem)) name.replace(0, kTorchStem.size(), kStem);
  return name.append(kSuffix);
}

/// The file whose content holds the elements of a tensor.
std::optional<std::size_t> file_of(const TensorBundle& bundle, const TensorEntry& tensor) {
  const auto bytes = tensor.order.empty() ? tensor.bytes : tensor.stored;
  const std::less_equal<> no_later;
  for (std::size_t i = 0; i < bundle.contents.size(); ++i) {
    const auto content = bundle.contents[i];
    if (no_later(content.data(), bytes.data()) &&
        no_later(bytes.data() + bytes.size(), content.data() + content.size()))
      return i;
  }
  return {};
}

OriginalFile index_of(std::string name, const nlohmann::ordered_json& map, std::int64_t all) {
  const nlohmann::ordered_json content = {{"metadata", {{"total_size", all}}}, {"weight_map", map}};
  const std::string text = content.dump(2) + "\n";
  const auto bytes = std::as_bytes(std::span(text));
  OriginalFile file{.bytes = static_cast<std::int64_t>(text.size())};
  file.content.name = std::move(name);
  file.content.skeleton.assign(bytes.begin(), bytes.end());
  return file;
}

}  // namespace

OriginalFile safetensors_file(std::span<const TensorEntry> tensors,
                              const std::vector<std::size_t>& chosen, std::string name) {
  constexpr std::string_view kStart = "{\"__metadata__\":{\"format\":\"pt\"}";
  std::vector<TensorEntry> entries, ordered;
  for (const std::size_t i : chosen)
    entries.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape, {}});
  OriginalFile file{.headed = true};
  for (const std::size_t i : file_order(entries)) {
    file.content.holes.push_back({.tensor = chosen[i]});
    file.bytes += tensor_bytes(entries[i].dtype, entries[i].shape, entries[i].name);
    ordered.push_back(entries[i]);
  }
  file.bytes +=
      static_cast<std::int64_t>(safetensors_start(std::string(kStart), ordered, name).size());
  const auto start = std::as_bytes(std::span(kStart));
  file.content.skeleton.assign(start.begin(), start.end());
  file.content.name = std::move(name);
  return file;
}

std::optional<OriginalFiles> safetensors_shards(const TensorBundle& bundle) {
  if (bundle.contents.size() < 2 || bundle.contents.size() != bundle.files.size()) return {};
  std::vector<std::vector<std::size_t>> tensors(bundle.files.size());
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    const auto file = file_of(bundle, bundle.tensors[i]);
    if (!file) return {};
    tensors[*file].push_back(i);
  }
  OriginalFiles shards{.format = "safetensors", .files = {}};
  nlohmann::ordered_json map = nlohmann::ordered_json::object();
  std::string index;
  std::int64_t all = 0;
  for (std::size_t f = 0; f < bundle.files.size(); ++f) {
    const std::string given = bundle.files[f].filename().string();
    if (tensors[f].empty()) {
      if (given.ends_with(kIndexEnd))
        index = shard_name(given.substr(0, given.size() - kIndexEnd.size())).append(kIndexEnd);
      continue;
    }
    if (sniff_bytes(bundle.contents[f], given) != FileKind::kStateDict) return {};
    const std::string name = shard_name(given);
    if (std::ranges::find(shards.files, name, [](const OriginalFile& file) {
          return file.content.name;
        }) != shards.files.end())
      return {};
    shards.files.push_back(safetensors_file(bundle.tensors, tensors[f], name));
    for (const std::size_t i : tensors[f]) {
      map[bundle.tensors[i].name] = name;
      all += static_cast<std::int64_t>(bundle.tensors[i].bytes.size());
    }
  }
  if (shards.files.size() < 2) return {};
  if (!index.empty()) shards.files.push_back(index_of(std::move(index), map, all));
  return shards;
}

}  // namespace gbcompress
