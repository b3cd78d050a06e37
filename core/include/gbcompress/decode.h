#pragma once
/// From a `.gbz` back to tensors, without LibTorch: the base of a delta, which tensors an
/// architecture has, the decoder.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gbcompress/artifact.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// The one `.gbz` of a folder that `compress FOLDER -o OUT/` wrote; a path that is no folder,
/// itself.
/// @throws Error(kNotFound) for a folder without a `.gbz`; Error(kUsage) for one with several;
///         Error(kIo)
std::filesystem::path artifact_in(const std::filesystem::path& path);

// The model that a delta is the difference from (docs/guides/deltas.md). LibTorch-free.

/// Tensors by name. Copies share them.
class BaseModel {
 public:
  /// A model file or folder as open_tensors() reads it, mapped where it can be, or a `.gbz`, which
  /// is expanded into memory. In a folder without weights, its one `.gbz` (artifact_in()). Of a
  /// `.gbz` that is a delta itself, the links of its chain are found in its folder.
  /// @throws Error(kNotFound) naming a link that is missing; Error(kCorrupt) for a loop, and for a
  ///         link that expands to other tensors than it states; Error(kUnsupported) for one of
  ///         layer types that need a plugin; else as open_tensors() and ArtifactReader::open()
  static BaseModel open(const std::filesystem::path& path, const ArtifactLimits& limits = {});
  /// The base of a delta. In a folder of several files, the one whose tensors have the digest that
  /// the delta needs, whole or at the end of a chain of deltas. @throws as open()
  static BaseModel open_for(const ArtifactReader& delta, const std::filesystem::path& path,
                            const ArtifactLimits& limits = {});
  /// The model that a delta expands to. @param before  its base
  /// @throws Error(kUsage) where the delta was made with another base; as decode_tensor()
  static BaseModel on(const ArtifactReader& delta, const BaseModel& before);
  explicit BaseModel(TensorBundle tensors);

  /// SHA-256 of names, types, shapes and elements of all tensors in the order of their names, in
  /// hexadecimal: the same for a model whatever file it comes from.
  const std::string& digest() const noexcept { return digest_; }
  const TensorBundle& tensors() const noexcept { return *tensors_; }
  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;
  /// For DecodeOptions::base. Files that hold no reference to a base ignore it.
  /// @throws Error(kUsage) where the file was made with another base
  std::function<std::span<const std::byte>(const ArtifactTensor&)> source_for(
      const ArtifactReader& artifact) const;

 private:
  std::shared_ptr<const TensorBundle> tensors_;
  std::string digest_;
};

/// A file between a delta and the whole model that its chain begins with.
struct ChainLink {
  std::filesystem::path file;  ///< "": no file has these tensors
  std::string digest;          ///< of the tensors that the next link needs
  std::int64_t bytes = 0;      ///< of the file
};
/// The chain of a delta: its base first, the whole model last. Of a file that is no delta, nothing.
/// @throws Error(kCorrupt) for a loop; as BaseModel::open()
std::vector<ChainLink> chain_of(const ArtifactReader& delta, const std::filesystem::path& folder,
                                const ArtifactLimits& limits = {});

// What tensors a built-in architecture has, from its name alone: files of known architectures
// store neither names nor shapes (artifact-format.md, "Architectures"). LibTorch-free.

struct LayoutEntry {
  std::string name;
  std::vector<std::int64_t> shape;
  DType dtype = DType::kF32;
  bool buffer = false;  ///< not trained
  int initial = 0;      ///< of a buffer: every element of a new model, 0 or 1
};

/// The tensors in the order of Model::tensors(): first the parameters, then the buffers.
/// @param arch  of any origin: "mlp:784-300-100-10", "lenet-300-100", "lenet5", "resnet20",
///              "resnet32:100", "resnet56", ...
/// @return nothing for another text, and for widths and sizes that the architectures refuse
std::optional<std::vector<LayoutEntry>> arch_layout(std::string_view arch);

/// Names of those architectures, without what follows a colon, sorted.
const std::vector<std::string>& layout_names();

// Tensors out of a file. There is no other decoder: libraries, programs and the golden tests run
// this one.

/// How a layer type makes a parameter of its tiles, where it does not just place them.
/// @param tiles  [tiles, tile_rows, tile_cols, kernel]
/// @return the values of the parameter, row-major
using TileBuilder =
    std::function<std::vector<float>(const ArtifactTensor& tensor, std::span<const float> tiles)>;

struct DecodeOptions {
  /// The builder of the layer type that a planned tensor names; an empty one where tiles are
  /// placed. Called for every planned tensor before any is decoded; what it throws is passed on.
  /// Unless it is set: place_only().
  std::function<TileBuilder(const ArtifactTensor& tensor)> builder;
  /// The bytes of a tensor of the base, of that type and shape: BaseModel::source_for(). Called by
  /// several threads. Without it deltas are refused.
  std::function<std::span<const std::byte>(const ArtifactTensor& tensor)> base = {};
  int threads = 0;  ///< 0: one for each processor; their number changes no bit
};

/// Whether the layer type is one of this project's that only place their tiles, so that no plugin
/// is needed. True for tensors without a plan.
bool is_placed(const ArtifactTensor& tensor) noexcept;
/// @return an empty builder
/// @throws Error(kUnsupported) naming a layer type that does more than place its tiles; of one that
///         does not, the revision does not matter here (docs/reference/artifact-gnets.md, "Plans")
TileBuilder place_only(const ArtifactTensor& tensor);

/// A tensor of any element type, however it was stored.
class DecodedTensor {
 public:
  DecodedTensor() = default;
  /// Of type F32.
  explicit DecodedTensor(std::vector<float> values) : values_(std::move(values)) {}
  /// @param elements  row-major and little-endian
  DecodedTensor(DType dtype, std::vector<std::byte> elements)
      : dtype_(dtype), elements_(std::move(elements)) {}

  DType dtype() const noexcept { return dtype_; }
  /// Its elements in its own type, row-major and little-endian. Valid as long as this object.
  std::span<const std::byte> bytes() const noexcept {
    return values_.empty() ? std::span<const std::byte>(elements_)
                           : std::as_bytes(std::span(values_));
  }
  /// Its values as float32, row-major: BOOL, F16 and BF16 exactly, F64 and integers rounded to
  /// nearest even. @throws Error(kUnsupported) for complex numbers and floats of 4 to 8 bits
  std::vector<float> floats() const&;
  std::vector<float> floats() &&;  ///< the same without a copy where that can be
  /// bytes() as a vector, without a copy where that can be.
  std::vector<std::byte> take_bytes() &&;

 private:
  DType dtype_ = DType::kF32;
  std::vector<float> values_;        ///< of F32, unless it was stored as bytes
  std::vector<std::byte> elements_;  ///< where there are no values
};

/// Generated by the exact kernel or made of its integers and rounded to nearest even, plain,
/// constant, or that of the tensor it is tied to. A tensor of integers takes their memory once more
/// meanwhile; with the profile small all integers of the file stay in memory.
/// @throws as DecodeOptions::builder, DecodeOptions::base and ArtifactReader::theta; Error(kUsage)
///         for a delta without its base
DecodedTensor decode_elements(const ArtifactReader& artifact, std::size_t tensor,
                              const DecodeOptions& options = {});
/// The same as bytes: float32 numbers are copied once more.
std::vector<std::byte> decode_tensor(const ArtifactReader& artifact, std::size_t tensor,
                                     const DecodeOptions& options = {});

/// A tensor straight into the caller's memory. With the profile lanes nothing lies in between where
/// the tensor is F32, or BF16 and read as BF16.
/// @param dtype  of real tensors F32, F16 or BF16, rounded to nearest even from the tensor's own
///               elements; of others, their own
/// @param bytes  as many as the tensor has in that dtype, aligned for its elements
/// @throws Error(kUsage) for another dtype or alignment, Error(kShapeMismatch) for another size; as
///         decode_elements()
void read_into(const ArtifactReader& artifact, std::size_t tensor, DType dtype,
               std::span<std::byte> bytes, const DecodeOptions& options = {});

// Models with a graph.

/// The name of the tensor of bytes that holds what a model's file has beside its tensors.
inline constexpr std::string_view kContainer = "gbz.container";
/// Whether a file is an ONNX model, by its name or its first bytes. @throws Error(kIo)
bool is_onnx(const std::filesystem::path& path);
/// Whether a file is a GGUF model, by its first bytes or its name. @throws Error(kIo)
bool is_gguf(const std::filesystem::path& path);
/// The element type of each tensor of a GGUF model as ggml calls it, by the tensor's name: "Q8_0".
/// @throws as open_tensors()
std::map<std::string, std::string> gguf_types(const std::filesystem::path& path);
/// The operators that take each tensor of a bundle that open_tensors() read from an ONNX model, by
/// its name: "Conv", "Add"; of other bundles nothing. @throws as open_tensors()
std::map<std::string, std::vector<std::string>> consumers_of(const TensorBundle& bundle);

/// What a file keeps of the model that it was made of beside its tensors
/// (docs/reference/container.md).
struct ContainerInfo {
  std::string format;              ///< "onnx" or "gguf"
  std::vector<std::string> files;  ///< of external data, relative to the model
  /// Whether tensors are real numbers that decode_to_container() quantizes again
  /// (OpenOptions::requantize).
  bool requantized = false;
};
/// Nothing without a container. @throws as ArtifactReader::plain(); Error(kCorrupt, kUnsupported)
std::optional<ContainerInfo> container_of(const ArtifactReader& artifact);

/// The model that the file was made of, with the tensors as they are stored: `output`, and beside
/// it its files of external data under their own names. Each file appears whole or not at all.
/// @return bytes written
/// @throws as decode_to_file(); Error(kUsage) for a file without a container
std::int64_t decode_to_container(const ArtifactReader& artifact,
                                 const std::filesystem::path& output, bool overwrite,
                                 const DecodeOptions& options = {});

/// All tensors, one after another straight into a safetensors file, or into NumPy's format where
/// `output` ends in `.npz`: beside the artifact itself one tensor is in memory, or with several
/// threads 128 MiB of them where there are integers alone. The file appears whole or not at all.
/// A name that ends in `.onnx` or `.gguf` selects decode_to_container(), for a file that was made
/// of such a model; other files leave the container out.
/// @return bytes written
/// @throws as decode_tensor(), write_safetensors() and, before the file has its name,
///         ArtifactReader::check_digest(); Error(kUsage) where `output` is the artifact itself,
///         ends as files of another format do (`.pt`), or is a `.npz` and a tensor has a type that
///         NumPy lacks; Error(kInterrupted) between two tensors
std::int64_t decode_to_file(const ArtifactReader& artifact, const std::filesystem::path& output,
                            bool overwrite, const DecodeOptions& options = {});

}  // namespace gbcompress
