// ONNX models as files on disk, with those of external data beside them.
#include <algorithm>

#include "base/file.h"
#include "format/file_kind.h"
#include "format/onnx/open.h"
#include "format/onnx/view.h"
#include "format/tensor_bundle.h"

namespace gbcompress::onnx {
namespace {

/// The model's own file and those beside it, mapped.
class ModelFiles {
 public:
  explicit ModelFiles(std::filesystem::path path)
      : path_(std::move(path)),
        folder_(path_.parent_path().empty() ? std::filesystem::path(".") : path_.parent_path()),
        label(printable(path_.string())) {}

  std::span<const std::byte> model() { return map(path_); }

  std::span<const std::byte> beside(const std::string& location) {
    namespace fs = std::filesystem;
    const fs::path file = folder_ / location;
    std::error_code ignored;
    if (!fs::exists(file, ignored))
      throw Error(Errc::kNotFound,
                  label + " has data in " + printable(location) +
                      ", which is not beside it; put that file into the folder of the model");
    const std::string inside = fs::canonical(folder_).string() + "/";
    if (!fs::canonical(file).string().starts_with(inside == "//" ? "/" : inside))
      throw Error(Errc::kUnsupported,
                  label + " has data in " + printable(location) +
                      ", a link that leaves the model's folder; move the data beside the model");
    return map(file);
  }

 private:
  std::span<const std::byte> map(const std::filesystem::path& file) {
    auto mapped = std::make_shared<MappedFile>(file);
    owners.push_back(mapped);
    files.push_back(file);
    return mapped->bytes();
  }

  std::filesystem::path path_, folder_;

 public:
  std::string label;
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<std::filesystem::path> files;
};

}  // namespace

TensorBundle open_model(const std::filesystem::path& path, bool requantize) {
  ModelFiles files(path);
  const auto beside = [&](const std::string& location) { return files.beside(location); };
  TensorBundle bundle = read_model(files.model(), files.label, beside, requantize);
  bundle.owners.insert(bundle.owners.end(), files.owners.begin(), files.owners.end());
  bundle.files = std::move(files.files);
  return bundle;
}

GraphView view_graph(const std::filesystem::path& path) {
  ModelFiles files(path);
  return view_graph(files.model(), files.label,
                    [&](const std::string& location) { return files.beside(location); });
}

bool looks_like_model(std::span<const std::byte> bytes) noexcept {
  // The IR version comes first, then the producer, a domain, a version, a text, or the graph.
  constexpr unsigned kNext[] = {0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42};
  if (bytes.size() < 4 || bytes[0] != std::byte{0x08}) return false;
  const auto version = std::to_integer<unsigned>(bytes[1]),
             next = std::to_integer<unsigned>(bytes[2]);
  return version >= 1 && version <= 64 &&
         std::find(std::begin(kNext), std::end(kNext), next) != std::end(kNext);
}

bool is_model(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const MappedFile map(path);
  if (map.bytes().empty() || !describe_foreign(map.bytes()).empty() ||
      !describe_stand_in(map.bytes()).empty())
    return false;
  return path.extension() == ".onnx" || looks_like_model(map.bytes());
}

TensorHints open_hints(const std::filesystem::path& path) {
  ModelFiles files(path);
  return read_hints(files.model(), files.label,
                    [&](const std::string& location) { return files.beside(location); });
}

}  // namespace gbcompress::onnx
