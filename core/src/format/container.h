#pragma once
/// The bytes of a model's files without the elements of its tensors (docs/reference/container.md):
/// together with the tensors they are those files again.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

/// The name of the tensor that holds a container.
inline constexpr std::string_view kContainerName = "gbz.container";
/// Bytes of all files without elements.
inline constexpr std::uint64_t kMaxSkeleton = std::uint64_t{1} << 32;

/// Files, the model's own among them, and bytes of the name of one.
inline constexpr std::size_t kMaxContainerFiles = 10'000, kMaxContainerName = 4096;

/// How elements stand in a file.
enum class PayloadEncoding : std::uint8_t {
  kBytes,   ///< row-major and little-endian
  kVarint,  ///< each as a varint: of signed types extended to 64 bits with its sign
  kQ8_0,    ///< real numbers as blocks of ggml's Q8_0
  kAffine,  ///< real numbers as the integers of a quantized model
};

/// Integers that stand for (integer - zero) * scale. Scale and zero of element i are those of index
/// i / inner modulo their number.
struct Affine {
  DType dtype = DType::kI8;  ///< or U8
  std::uint64_t inner = 1;
  std::vector<float> scales;        ///< finite, above 0
  std::vector<std::int32_t> zeros;  ///< as many, in the range of the type
  bool operator==(const Affine&) const = default;
};

/// Where the elements of a tensor belong.
struct Hole {
  std::size_t tensor = 0;    ///< index among the tensors of the file that holds the container
  std::uint64_t before = 0;  ///< bytes of the skeleton before it
  PayloadEncoding encoding = PayloadEncoding::kBytes;
  /// Of kVarint: places in the skeleton, ascending, of the lengths (varints) that count the
  /// elements' bytes.
  std::vector<std::uint64_t> frames;
  Affine affine = {};  ///< of kAffine
};

struct ContainerFile {
  std::string name;  ///< relative, with slashes; "": the model's own
  std::vector<Hole> holes;
  std::vector<std::byte> skeleton;
};

struct Container {
  std::string format;  ///< "onnx" or "gguf"
  std::vector<ContainerFile> files;

  std::vector<std::byte> encode() const;
  /// @param tensors  of the file that holds it
  /// @throws Error(kCorrupt, kTruncated, kLimit, kUnsupported)
  static Container decode(std::span<const std::byte> bytes, std::size_t tensors,
                          const std::string& label);
};

/// Whether a path names a file in the folder it is relative to, or below it.
bool stays_inside(std::string_view path) noexcept;

/// Whether a container may have a file of that name beside the model's own: one that stays inside,
/// of at most kMaxContainerName bytes of UTF-8 without control characters.
bool is_file_name(std::string_view name) noexcept;

/// @param elements  whole ones, of at most 64 bits
/// @return their varints
/// @throws Error(kCorrupt) for a type whose elements are no whole bytes
std::vector<std::byte> to_varints(std::span<const std::byte> elements, DType dtype);
/// The elements, where to_varints() makes the same bytes of them; else nothing.
/// @throws as to_varints()
std::optional<std::vector<std::byte>> from_varints(std::span<const std::byte> varints, DType dtype,
                                                   std::int64_t count);

/// What the bytes of a hole of kVarint took in the file: the last of its lengths.
/// @throws Error(kCorrupt) where there is none
std::uint64_t payload_size(const ContainerFile& file, const Hole& hole, const std::string& label);

/// Makes the lengths in a skeleton count what the elements of its holes take now.
/// @param more  for each hole, by how many bytes its elements are longer than they were; 0 for
/// kBytes
/// @throws Error(kCorrupt) where a length is none, or would be negative
void fit_lengths(ContainerFile& file, std::span<const std::int64_t> more, const std::string& label);

}  // namespace gbcompress
