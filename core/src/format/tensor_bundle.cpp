#include "format/tensor_bundle.h"

#include <algorithm>

#include "base/checked.h"
#include "base/text.h"
#include "base/utf8.h"
#include "format/file_kind.h"
#include "format/safetensors.h"
#include "format/state_dict.h"
#include "gbcompress/error.h"

namespace gbcompress {

const TensorEntry* TensorBundle::find(std::string_view name) const noexcept {
  const auto at = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != tensors.end() && at->name == name ? &*at : nullptr;
}

void check_tensor_name(std::string_view name, const std::string& label) {
  if (name.empty()) throw Error(Errc::kCorrupt, label + ": a tensor has an empty name");
  if (name.size() > kMaxTensorName)
    throw Error(Errc::kLimit, label + ": the tensor name " + printable(name.substr(0, 64)) +
                                  "... has " + std::to_string(name.size()) +
                                  " bytes, at most 512 are allowed");
  for (std::size_t i = 0; i < name.size();) {
    const std::size_t length = utf8_length(name, i);
    if (length == 0 || is_control(name, i))
      throw Error(Errc::kCorrupt,
                  label + ": the tensor name " + printable(name) + " holds " +
                      (length == 0 ? "bytes that are not UTF-8" : "a control character"));
    i += length;
  }
  if (name == "__metadata__")
    throw Error(Errc::kCorrupt, label + ": a tensor is named __metadata__, which is reserved");
}

std::int64_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape,
                          const std::string& what) {
  if (shape.size() > kMaxTensorRank)
    throw Error(Errc::kLimit, what + " has " + std::to_string(shape.size()) +
                                  " dimensions, at most 8 are allowed");
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t side) { return side < 0; }))
    throw Error(Errc::kCorrupt, what + " has a negative size");
  const std::string size = what + ": its size";
  const std::int64_t bits =
      checked_mul(checked_elements(shape, size.c_str()), dtype_bits(dtype), size.c_str());
  if (bits % 8 != 0)
    throw Error(Errc::kCorrupt,
                what + " has " + std::to_string(bits) + " bits, which do not fill whole bytes");
  return bits / 8;
}

TensorBundle open_tensors(const std::filesystem::path& path) {
  switch (sniff(path)) {
    case FileKind::kSafetensors:
      return open_safetensors(path);
    case FileKind::kStateDict:
      return read_state_dict(path);
    case FileKind::kArtifact:
      throw Error(Errc::kUnsupported,
                  printable(path.string()) + " is a compressed artifact; expand it first");
    case FileKind::kTorchScript:
      throw Error(Errc::kUnsupported,
                  printable(path.string()) +
                      " is a TorchScript program; safetensors or a state dict was "
                      "expected");
    case FileKind::kUnknown:
      break;
  }
  throw Error(Errc::kUnsupported,
              printable(path.string()) + " is neither safetensors nor a PyTorch state dict");
}

}  // namespace gbcompress
