// Text that people and other programs write: settings in TOML, indices in JSON.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <stdexcept>

#include "config/toml_reader.h"
#include "format/model_folder.h"
#include "format/safetensors/safetensors.h"
#include "fuzz/memory_file.h"
#include "fuzz/target.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"

namespace gbcompress::fuzz {
namespace {

void run_settings(Input input) {
  const MemoryFile file(input);
  Settings settings;
  settings.apply_file(file.path());
  // What was accepted can be told.
  settings.to_json();
  settings.changes_json();
}

std::vector<Bytes> settings_seeds() {
  std::string every = "schema = 1\n";
  for (const SettingInfo& row : setting_table())
    if (!row.default_value.empty()) every += row.key + " = " + row.default_value + "\n";
  std::vector<Bytes> seeds = {to_bytes(every), to_bytes("[gnet]\nhidden = [3, 4]\n")};
  for (const SettingInfo& row : setting_table())
    seeds.push_back(
        to_bytes(row.key + " = " + (row.default_value.empty() ? "1" : row.default_value)));
  for (const SettingInfo& row : layer_table())
    seeds.push_back(to_bytes("[[layer]]\nmatch = \"*\"\n" + row.key + " = 1\n"));
  return seeds;
}

/// A folder in memory with two shards; the index is what is fuzzed.
class Shards {
 public:
  Shards() {
    std::string name = "/dev/shm/gbc-fuzz-XXXXXX";
    if (!::mkdtemp(name.data())) throw std::runtime_error("no folder in /dev/shm");
    folder_ = name;
    for (const std::string shard : {"a", "b"}) {
      const Bytes bytes = to_bytes(shard + shard);
      const std::vector<TensorEntry> tensors{{shard, DType::kU8, {2}, bytes}};
      write_safetensors(folder_ / (shard + ".safetensors"), tensors, {}, true);
    }
  }
  ~Shards() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  std::filesystem::path index() const { return folder_ / "m.safetensors.index.json"; }

 private:
  std::filesystem::path folder_;
};

void run_index(Input input) {
  static const Shards shards;
  {
    std::ofstream out(shards.index(), std::ios::binary | std::ios::trunc);
    out << to_text(input);
  }
  open_model_folder(shards.index());
}

std::vector<Bytes> index_seeds() {
  return {
      to_bytes(
          R"({"metadata":{"total_size":4},"weight_map":{"a":"a.safetensors","b":"b.safetensors"}})"),
      to_bytes(R"({"weight_map":{"a":"../a.safetensors"}})"), to_bytes(R"({"weight_map":{}})"),
      to_bytes(
          R"({"metadata":[[{}]],"weight_map":{"\u0061":"a.safetensors","b":"b.safetensors"}})")};
}

}  // namespace

const std::vector<Target> text_targets = {
    {"settings", run_settings, settings_seeds},
    {"model_index", run_index, index_seeds},
};

}  // namespace gbcompress::fuzz
