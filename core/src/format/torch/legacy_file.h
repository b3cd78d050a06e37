#pragma once
/// What torch.save wrote before PyTorch 1.6 (and still writes without zip): five pickles, then
/// every storage's number of elements and its bytes.

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "format/torch/pickle.h"

namespace gbcompress {

struct LegacyFile {
  PickleTree tree;
  std::map<std::string, std::span<const std::byte>> storages;  ///< by key; views of the file
};

/// Whether a file begins as this format does.
bool is_legacy_file(std::span<const std::byte> bytes) noexcept;

/// @param bytes  must outlive the result
/// @throws Error(kTruncated) for a file that was cut off anywhere; Error(kUnsupported) for
///         big-endian numbers or another protocol; Error(kCorrupt); as read_pickle()
LegacyFile read_legacy_file(std::span<const std::byte> bytes, const std::string& label);

}  // namespace gbcompress
