#pragma once
/// What torch.save(model.state_dict()) writes, read without Python, LibTorch or running anything.

#include <filesystem>
#include <span>
#include <string>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// Tensors of a `.pt` or `.pth` file in the zip format (PyTorch 1.6 and newer). Names of nested
/// dictionaries and lists are joined by dots ("state_dict.fc.weight"); what is not a tensor is
/// skipped. Contiguous tensors are views of the mapped file, and tensors that shared memory when
/// they were saved share their bytes; others are copied into row-major order.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty or cut file;
///         Error(kUnsupported) for a whole pickled module, the format before 1.6, TorchScript,
///         big-endian numbers, or anything without tensors; Error(kLimit); Error(kCorrupt)
TensorBundle read_state_dict(const std::filesystem::path& path);
/// The same from memory. @param bytes  must outlive the result
/// @param label  stands for the file's name in messages
TensorBundle read_state_dict(std::span<const std::byte> bytes, const std::string& label);

}  // namespace gbcompress
