#pragma once
/// Element types; kinds of model files and their tensors; folders: model_folders.h. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/atomic_file.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

// Element types under the names the safetensors format gives them.

enum class DType : std::uint8_t {
  kBool,
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kU64,
  kI64,
  kF16,
  kBF16,
  kF32,
  kF64,
  kC64,
  kF8E5M2,
  kF8E4M3,
  kF8E5M2FNUZ,
  kF8E4M3FNUZ,
  kF8E8M0,
  kF6E2M3,
  kF6E3M2,
  kF4,
};

/// "F32", "BF16", "F8_E4M3", ...
std::string_view dtype_name(DType dtype) noexcept;
std::optional<DType> parse_dtype(std::string_view name) noexcept;
/// Bits of one element: 4, 6, 8, 16, 32 or 64.
int dtype_bits(DType dtype) noexcept;
/// True for F16, BF16, F32 and F64: the types a g-net can stand in for.
bool is_real(DType dtype) noexcept;

/// Numbers of a tensor of that shape: 1 for a scalar.
/// @throws Error(kLimit) above 2^63, or where a side is negative
std::int64_t tensor_elements(std::span<const std::int64_t> shape);

// How a model is found in a file that holds more than one.

struct OpenOptions {
  /// Every tensor and number of a checkpoint under its full dotted name, also optimizers' and
  /// schedulers'.
  bool keep_all = false;
  /// The part of a checkpoint that is the model, by its dotted name ("generator",
  /// "ema.state_dict");
  /// "" to find it.
  std::string part = {};
  /// Of ONNX and GGUF models: integers that stand for real numbers (INT8 and UINT8 weights with
  /// constant scales, Q8_0) are read as these, F32. decode_to_container() quantizes them again.
  bool requantize = false;
  /// Of a folder: every file beside the weights goes along, also one that no library reads
  /// (find_carried()).
  bool whole_folder = false;
};

// What a model file is, told by its content.

enum class FileKind : std::uint8_t {
  kSafetensors,
  kFolder,       ///< a folder, or the index of shards in one
  kArtifact,     ///< `.gbz`
  kStateDict,    ///< torch.save: a zip, or a bare pickle as before PyTorch 1.6
  kExported,     ///< `.pt2` of torch.export, or of AOTInductor
  kTorchScript,  ///< a zip with code/ and constants.pkl
  kUnknown,
};

/// A file named .safetensors or .gbz that is damaged counts as that, so that its reader says what
/// is wrong with it.
/// @throws Error(kNotFound); Error(kIo) for a device or no permission; Error(kTruncated) for an
///         empty file or a zip that was cut off; Error(kCorrupt) for a broken zip directory
FileKind sniff(const std::filesystem::path& path);

// Named tensors of a file, as bytes.

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  /// Row-major and little-endian. Not aligned: copy numbers out, do not cast.
  std::span<const std::byte> bytes;
  /// Bit for bit or not at all: what belongs to the training of a checkpoint that is kept whole,
  /// the tensors of a GGUF file that is no model.
  bool exact = false;
  /// Of U8: ggml's number of the quantized type whose blocks the bytes are; 0: they are none.
  std::uint32_t block_type = 0;
  /// Of some rows of a tensor that is in pieces, that tensor's name; else "".
  std::string whole = {};
  std::int64_t first = 0;  ///< of the tensor that is in pieces, the first element
  /// Of a tensor whose elements a file of PyTorch has along other dimensions first: its elements as
  /// they are there, and the dimensions from the longest stride to the shortest. Else empty.
  std::span<const std::byte> stored = {};
  std::vector<std::uint8_t> order = {};
};

/// Tensors together with the owner of their bytes. Copies are cheap and share the bytes;
/// entries of one tensor saved under two names may share theirs.
struct TensorBundle {
  std::vector<TensorEntry> tensors;  ///< sorted by name
  std::map<std::string, std::string> metadata;
  std::vector<std::shared_ptr<const void>> owners;
  std::int64_t file_bytes = 0;  ///< of the files that hold the tensors, an index not counted
  /// What the user should know, one line each: "left out: optimizer (517 tensors, 3.2 MB), epoch".
  std::vector<std::string> notes;
  std::vector<std::string> left_out;  ///< names of what the file holds beside the model
  /// That hold the tensors, an index included: no output may replace them. Empty for a bundle that
  /// was made by hand.
  std::vector<std::filesystem::path> files;
  /// The bytes of `files`, in their order, which tensors' bytes may be parts of: what
  /// compress_weights() needs to keep the files themselves. Empty where tensors of them are missing
  /// because a part was chosen, and of ONNX and GGUF models, which keep theirs in a tensor.
  std::vector<std::span<const std::byte>> contents;
  /// Of a folder: configuration and tokenizer files, and modules of sentence-transformers, which
  /// CarriedCopies takes along. Relative to it: "config.json", "1_Pooling/config.json".
  std::vector<std::filesystem::path> carried;

  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;
};

/// The tensors that sizes and targets count: of those that share their bytes (tied) the first, and
/// not what a model's file holds beside its tensors (kContainer).
std::vector<TensorEntry> distinct_tensors(std::span<const TensorEntry> tensors);

/// For bundles made by hand: sorts tensors. @param label  names the file in messages
/// @throws Error(kCorrupt) for a name that is there twice
void sort_by_name(TensorBundle& bundle, const std::string& label);

/// Whatever holds tensors: safetensors, what torch.save or torch.export.save wrote, or a folder or
/// index of those, told apart by sniff().
/// Nothing in them is run. Files are mapped where they can be: they must stay as they are while the
/// bundle lives (check_mapped_inputs()).
/// @throws Error(kUnsupported) for a file of another kind, or what it holds beside plain tensors;
///         Error(kNotFound, kIo); Error(kTruncated, kCorrupt, kLimit); Error(kUsage) for a file of
///         several models, unless `options` choose one
TensorBundle open_tensors(const std::filesystem::path& path, const OpenOptions& options = {});

/// A mapped file that is cut short reads as zeros from then on. To be called before what was made
/// of its bytes is handed on; AtomicFile::commit() does.
/// @throws Error(kFailure) if a mapped file became shorter, or one that was mapped did, unreported
///         so far [thread-safe]
void check_mapped_inputs();

/// Refuses an output that is one of the inputs under whatever name, also through symbolic or hard
/// links: the same device and inode. Paths that do not exist are no inputs.
/// @throws Error(kUsage)
void check_not_an_input(const std::filesystem::path& output,
                        std::span<const std::filesystem::path> inputs);

}  // namespace gbcompress
