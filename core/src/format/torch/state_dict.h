#pragma once
/// What torch.save writes, read without Python, LibTorch or running anything.

#include <filesystem>
#include <span>
#include <string>

#include "format/tensor_bundle.h"

namespace gbcompress {

/// The model in a file of torch.save: zip, or the format before PyTorch 1.6. In a checkpoint the
/// model is looked for; what is left out is in `notes`, and a prefix `module.` or `_orig_mod.` that
/// all names share is taken off. Names of nested dictionaries and lists are joined by dots.
/// Of a pickled module what its state dict would hold is read.
/// Contiguous tensors are views of the mapped file, and tensors that shared memory when they were
/// saved share their bytes; others are copied into row-major order.
/// @throws Error(kNotFound, kIo) as MappedFile; Error(kTruncated) for an empty or cut file;
///         Error(kUnsupported) for TorchScript, big-endian numbers, tensors that are no plain
///         ones (quantized, sparse, nested, shards), or a file without a model; Error(kUsage) for
///         several models; Error(kLimit); Error(kCorrupt)
TensorBundle read_state_dict(const std::filesystem::path& path, const OpenOptions& options = {});
/// The same from memory. @param bytes  must outlive the result
/// @param label  stands for the file's name in messages
TensorBundle read_state_dict(std::span<const std::byte> bytes, const std::string& label,
                             const OpenOptions& options = {});

}  // namespace gbcompress
