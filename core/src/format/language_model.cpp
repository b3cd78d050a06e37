#include "format/language_model.h"

#include <algorithm>
#include <filesystem>
#include <string>

#include "base/file.h"
#include "format/safetensors/json_scan.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::uintmax_t kMostConfig = 1 << 22;

class Architectures final : public JsonHandler {
 public:
  void begin(JsonFrames, bool) override {}
  void end(JsonFrames) override {}
  void text(JsonFrames frames, std::string& value) override {
    if (frames.size() != 2 || frames[0].key != "architectures") return;
    for (const std::string_view end : {"LM", "LMHeadModel", "ConditionalGeneration"})
      found = found || value.ends_with(end);
  }
  void whole(JsonFrames, std::uint64_t) override {}
  void other(JsonFrames) override {}

  bool found = false;
};

}  // namespace

bool predicts_tokens(const TensorBundle& bundle) {
  const auto& metadata = bundle.metadata;
  if (metadata.contains("tokenizer.ggml.model"))
    return std::none_of(metadata.begin(), metadata.end(),
                        [](const auto& pair) { return pair.first.ends_with(".pooling_type"); });
  if (bundle.files.empty()) return false;
  const std::filesystem::path config = bundle.files.front().parent_path() / "config.json";
  std::error_code error;
  if (!std::filesystem::is_regular_file(config, error) ||
      std::filesystem::file_size(config, error) > kMostConfig || error)
    return false;
  Architectures architectures;
  try {
    const MappedFile map(config);
    scan_json({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()},
              "config.json", 64, architectures);
  } catch (const Error&) {
    return false;  // another program's file; what the model is does not depend on it
  }
  return architectures.found;
}

}  // namespace gbcompress
