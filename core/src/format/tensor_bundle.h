#pragma once
/// Named tensors of a file, as bytes, and the rules that every file format here puts on them.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/internal.h"
#include "gbcompress/tensors.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr std::size_t kMaxTensorRank = 8;
inline constexpr std::size_t kMaxTensorName = 512;  ///< bytes
inline constexpr std::size_t kMaxTensors = 1'000'000;

struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  /// Row-major and little-endian. Not aligned: copy numbers out, do not cast.
  std::span<const std::byte> bytes;
  /// Of a checkpoint that is kept whole, what belongs to its training: bit for bit or not at all.
  bool exact = false;
};

/// Tensors together with whatever keeps their bytes alive. Copies are cheap and share the bytes;
/// entries of one tensor saved under two names may share theirs.
struct TensorBundle {
  std::vector<TensorEntry> tensors;  ///< sorted by name
  std::map<std::string, std::string> metadata;
  std::vector<std::shared_ptr<const void>> owners;
  std::int64_t file_bytes = 0;  ///< of the files that hold the tensors, an index not counted
  /// What the user should know, one line each: "left out: optimizer (517 tensors, 3.2 MB), epoch".
  std::vector<std::string> notes;
  std::vector<std::string> left_out;  ///< names of what the file holds beside the model
  /// Of a folder: configuration and tokenizer files, which CarriedCopies takes along.
  std::vector<std::filesystem::path> carried;

  /// nullptr where there is none. [thread-safe]
  const TensorEntry* find(std::string_view name) const noexcept;
};

/// UTF-8, 1 to 512 bytes, no control characters, not "__metadata__".
/// @param label  what the name was found in, for the message
/// @throws Error(kLimit) for a long one, Error(kCorrupt)
void check_tensor_name(std::string_view name, const std::string& label);

/// Bytes that a tensor takes.
/// @param what  the tensor, for messages: "model.safetensors: tensor fc.weight"
/// @throws Error(kLimit) above 8 dimensions or 2^63 bits; Error(kCorrupt) for a negative side or
///         where elements of 4 or 6 bits do not fill whole bytes
std::int64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                          const std::string& what);

/// Sorts tensors. @throws Error(kCorrupt) for a name that is there twice
void sort_by_name(TensorBundle& bundle, const std::string& label);

/// Whatever holds tensors: safetensors, what torch.save or torch.export.save wrote, or a folder or
/// index of those, told apart by sniff().
/// @throws Error(kUnsupported) for a file of another kind; else as open_safetensors(),
///         read_state_dict(), read_exported_program() and open_model_folder()
TensorBundle open_tensors(const std::filesystem::path& path, const OpenOptions& options = {});

}  // namespace gbcompress
