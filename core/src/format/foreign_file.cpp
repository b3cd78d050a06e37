#include <string_view>

#include "format/file_kind.h"

namespace gbcompress {
namespace {

struct Signature {
  std::string_view start, sentence;
};

constexpr Signature kSignatures[] = {
    {"version https://git-lfs", "is a Git LFS pointer, not the file itself; run `git lfs pull`"},
    {"<!DOCTYPE", "is a web page, not a model; its download failed"},
    {"<!doctype", "is a web page, not a model; its download failed"},
    {"<html", "is a web page, not a model; its download failed"},
    {"\x1f\x8b", "is compressed with gzip; unpack it first"},
    {"BZh", "is compressed with bzip2; unpack it first"},
    {"\xfd"
     "7zXZ",
     "is compressed with xz; unpack it first"},
    {"\x28\xb5\x2f\xfd", "is compressed with Zstandard; unpack it first"},
    {"\x89HDF", "is an HDF5 file (Keras), which is not read; save its tensors as safetensors"},
    {"GGUF", "is a GGUF file, which is not read; start from the model it was made of"},
    {"\x93NUMPY", "is one NumPy array; save a dictionary of tensors as safetensors"},
};

}  // namespace

std::string describe_foreign(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const Signature& each : kSignatures)
    if (text.starts_with(each.start)) return std::string(each.sentence);
  constexpr std::size_t kTarMark = 257;
  if (text.size() > kTarMark && text.substr(kTarMark).starts_with("ustar"))
    return text.starts_with("storages") || text.starts_with("sys_info") ||
                   text.starts_with("pickle") || text.starts_with("./storages")
               ? "is in the tar format that PyTorch wrote before 0.1.10, which is not read; load "
                 "it "
                 "in Python and save it again"
               : "is a tar archive; unpack it first";
  return "";
}

}  // namespace gbcompress
