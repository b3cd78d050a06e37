#include <algorithm>
#include <cctype>
#include <string_view>

#include "format/file_kind.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Signature {
  std::string_view start, sentence;
};

constexpr Signature kSignatures[] = {
    {"\x1f\x8b", "is compressed with gzip; unpack it first"},
    {"BZh", "is compressed with bzip2; unpack it first"},
    {"\xfd"
     "7zXZ",
     "is compressed with xz; unpack it first"},
    {"\x28\xb5\x2f\xfd", "is compressed with Zstandard; unpack it first"},
    {"\x89HDF", "is an HDF5 file (Keras), which is not read; save its tensors as safetensors"},
    {"\x93NUMPY", "is one NumPy array; save a dictionary of tensors as safetensors"},
};

constexpr std::string_view kPointer = "version https://git-lfs";
constexpr std::string_view kPages[] = {"<!doctype html", "<html", "<head"};

bool is_page(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  return std::any_of(std::begin(kPages), std::end(kPages), [&](std::string_view page) {
    return text.size() >= page.size() &&
           std::equal(page.begin(), page.end(), text.begin(), [](char a, unsigned char b) {
             return a == static_cast<char>(std::tolower(b));
           });
  });
}

}  // namespace

std::string describe_stand_in(std::span<const std::byte> bytes) {
  constexpr std::size_t kFirst = 512;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min(bytes.size(), kFirst));
  if (text.starts_with(kPointer))
    return "is a Git LFS pointer, not the file itself; run `git lfs pull`";
  return is_page(text) ? "is a web page, not a model; its download failed" : "";
}

void refuse_stand_in(std::span<const std::byte> bytes, const std::string& label) {
  const std::string is = describe_stand_in(bytes);
  if (!is.empty()) throw Error(Errc::kUnsupported, label + " " + is);
}

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
  constexpr std::string_view kOrtMark = "ORTM";
  if (text.size() > 8 && text.substr(4).starts_with(kOrtMark))
    return "is a model in onnxruntime's ORT format (.ort), which is not read; compress the ONNX "
           "model that it "
           "was made from";
  return "";
}

}  // namespace gbcompress
