#include "artifact/expansion.h"
#include "artifact/model_files.h"
#include "format/container.h"
#include "format/npz.h"
#include "format/safetensors/safetensors.h"
#include "format/safetensors/safetensors_order.h"
#include "format/tensor_format.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// @param format  ONNX or GGUF
void check_made_of(const ArtifactReader& artifact, TensorFormat format) {
  const auto container = container_of(artifact);
  const bool onnx = format == TensorFormat::kOnnx;
  if (container && container->format == (onnx ? "onnx" : "gguf")) return;
  throw Error(Errc::kUsage, label_of(artifact) + " was not made of " +
                                (onnx ? "an ONNX" : "a GGUF") + " model; name a " +
                                (container ? "." + container->format + ", " : "") +
                                ".safetensors or .npz file to write");
}

}  // namespace

bool gives_original(const ArtifactReader& artifact, const std::filesystem::path& output) {
  const auto originals = originals_of(artifact);
  if (!originals || originals->files.size() != 1) return false;
  const bool torch = originals->format == "torch";
  return format_for(output, torch) == (torch ? TensorFormat::kTorch : TensorFormat::kSafetensors);
}

std::int64_t decode_to_file(const ArtifactReader& artifact, const std::filesystem::path& output,
                            bool overwrite, const DecodeOptions& options) {
  check_not_an_input(output, {&artifact.path(), 1});
  if (gives_original(artifact, output))
    return decode_to_originals(artifact, output, overwrite, options);
  const TensorFormat format = format_for(output);
  if (format == TensorFormat::kOnnx || format == TensorFormat::kGguf) {
    check_made_of(artifact, format);
    return decode_to_container(artifact, output, overwrite, options);
  }
  const auto& tensors = artifact.tensors();
  const bool contained = container_of(artifact).has_value();
  std::vector<TensorEntry> entries;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (contained && tensors[i].name == kContainerName) continue;
    entries.push_back({tensors[i].name, tensors[i].dtype, tensors[i].shape, {}});
    places.push_back(i);
  }
  std::vector<std::size_t> order;
  for (const std::size_t i : file_order(entries)) order.push_back(places[i]);
  Expansion expansion(artifact, order, options);
  const TensorPieces source = [&](std::size_t, const auto& sink) { expansion.next(sink); };
  if (format == TensorFormat::kNpz) {
    std::vector<std::byte> whole;
    return write_npz(output, entries, overwrite, [&](std::size_t i) {
      whole.clear();
      source(i, [&](std::span<const std::byte> piece) {
        whole.insert(whole.end(), piece.begin(), piece.end());
      });
      return std::span<const std::byte>(whole);
    });
  }
  return write_safetensors_pieces(output, entries, {{"format", "pt"}}, overwrite, source);
}

}  // namespace gbcompress
