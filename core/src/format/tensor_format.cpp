#include "format/tensor_format.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr std::string_view kPickled[] = {".pt", ".pth", ".bin", ".ckpt", ".tar", ".pt2"};
constexpr std::string_view kOthers[] = {".gbz", ".npy", ".h5",     ".hdf5",    ".keras",
                                        ".pb",  ".pkl", ".pickle", ".msgpack", ".tflite",
                                        ".ort", ".zip", ".json"};

bool is_among(std::string_view suffix, auto& list) {
  return std::find(std::begin(list), std::end(list), suffix) != std::end(list);
}

}  // namespace

TensorFormat format_for(const std::filesystem::path& path, bool torch) {
  std::string suffix = path.extension().string();
  std::transform(suffix.begin(), suffix.end(), suffix.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (suffix == ".npz") return TensorFormat::kNpz;
  if (suffix == ".onnx") return TensorFormat::kOnnx;
  if (suffix == ".gguf") return TensorFormat::kGguf;
  const bool pickled = is_among(suffix, kPickled);
  if (pickled && torch) return TensorFormat::kTorch;
  if (!pickled && !is_among(suffix, kOthers)) return TensorFormat::kSafetensors;
  const std::string label = printable(path.string());
  const std::string base = printable(std::filesystem::path(path).replace_extension().string());
  throw Error(Errc::kUsage,
              label + ": " + suffix + " files are not written; name " + base + ".safetensors or " +
                  base + ".npz" +
                  (pickled ? " (in Python, torch.save(safetensors.torch.load_file(\"" + base +
                                 ".safetensors\"), \"" + label + "\") makes the other of the first)"
                           : ""));
}

}  // namespace gbcompress
