#pragma once
/// Weights of a program that torch.export.save wrote (`.pt2`); the program itself is not looked at.

#include <filesystem>
#include <span>
#include <string>

#include "format/tensor_bundle.h"
#include "format/zip_archive.h"

namespace gbcompress {

/// Whether a zip is a `.pt2`, of torch.export or of AOTInductor.
bool is_exported_program(const ZipArchive& zip);

/// Parameters and persistent buffers under the names of the module's state dict; constants are left
/// out. Archives of PyTorch 2.9 and newer hold raw bytes, older ones a state dict.
/// @param options  `part` names one of several programs
/// @throws Error(kUnsupported) for an AOTInductor package, an archive without weights, or a weight
///         of an unknown dtype or layout; Error(kUsage) for several programs; Error(kNotFound) for
///         an unknown part; as ZipArchive and read_state_dict()
TensorBundle read_exported_program(const std::filesystem::path& path,
                                   const OpenOptions& options = {});
/// The same from memory. @param bytes  must outlive the result
TensorBundle read_exported_program(std::span<const std::byte> bytes, const std::string& label,
                                   const OpenOptions& options = {});

}  // namespace gbcompress
