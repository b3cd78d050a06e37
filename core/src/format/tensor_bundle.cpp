#include "format/tensor_bundle.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <unordered_map>

#include "base/checked.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/utf8.h"
#include "format/container.h"
#include "format/file_kind.h"
#include "format/gguf/open.h"
#include "format/model_folder.h"
#include "format/onnx/open.h"
#include "format/safetensors/safetensors.h"
#include "format/torch/exported_program.h"
#include "format/torch/state_dict.h"
#include "format/torch/training_state.h"
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

std::int64_t tensor_elements(std::span<const std::int64_t> shape) {
  return checked_elements(shape, "a tensor");
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

void sort_by_name(TensorBundle& bundle, const std::string& label) {
  std::sort(bundle.tensors.begin(), bundle.tensors.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  const auto twice = std::adjacent_find(
      bundle.tensors.begin(), bundle.tensors.end(),
      [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
  if (twice != bundle.tensors.end())
    throw Error(Errc::kCorrupt, label + " holds tensor " + printable(twice->name) + " twice");
}

std::vector<TensorEntry> distinct_tensors(std::span<const TensorEntry> tensors) {
  std::set<const std::byte*> seen;
  std::vector<TensorEntry> result;
  for (const TensorEntry& entry : tensors)
    if (entry.name != kContainerName &&
        (entry.bytes.empty() || seen.insert(entry.bytes.data()).second))
      result.push_back(entry);
  return result;
}

namespace {

/// The first, middle and last bytes, which tell most tensors apart.
std::uint64_t sample_of(std::span<const std::byte> bytes) {
  constexpr std::size_t kPart = 256;
  if (bytes.size() <= 3 * kPart) return xxh3_64(bytes);
  std::vector<std::byte> sample(bytes.begin(), bytes.begin() + kPart);
  for (const std::size_t from : {bytes.size() / 2, bytes.size() - kPart})
    sample.insert(sample.end(), bytes.begin() + static_cast<std::ptrdiff_t>(from),
                  bytes.begin() + static_cast<std::ptrdiff_t>(from + kPart));
  return xxh3_64(sample);
}

bool is_one_element(const TensorEntry& entry) {
  const auto size = static_cast<std::size_t>(std::max(1, dtype_bits(entry.dtype) / 8));
  return entry.bytes.size() <= size ||
         std::equal(entry.bytes.begin() + static_cast<std::ptrdiff_t>(size), entry.bytes.end(),
                    entry.bytes.begin());
}

}  // namespace

void share_equal(TensorBundle& bundle, const std::function<bool(const TensorEntry&)>& among) {
  using Form = std::tuple<std::uint64_t, DType, std::vector<std::int64_t>>;
  std::map<Form, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < bundle.tensors.size(); ++i) {
    const TensorEntry& entry = bundle.tensors[i];
    if (among && !among(entry)) continue;
    alike[{sample_of(entry.bytes), entry.dtype, entry.shape}].push_back(i);
  }
  for (const auto& [form, tensors] : alike) {
    if (tensors.size() < 2) continue;
    std::unordered_map<std::uint64_t, std::size_t> first;
    for (const std::size_t i : tensors) {
      TensorEntry& entry = bundle.tensors[i];
      if (is_one_element(entry)) continue;
      const auto [at, fresh] = first.emplace(xxh3_64(entry.bytes), i);
      const TensorEntry& other = bundle.tensors[at->second];
      if (!fresh && std::ranges::equal(other.bytes, entry.bytes)) entry.bytes = other.bytes;
    }
  }
}

namespace {

TensorBundle open_kind(FileKind kind, const std::filesystem::path& path,
                       const OpenOptions& options) {
  const std::string label = printable(path.string());
  switch (kind) {
    case FileKind::kSafetensors:
      return open_safetensors(path);
    case FileKind::kFolder:
      return open_model_folder(path, options);
    case FileKind::kStateDict:
      return read_state_dict(path, options);
    case FileKind::kExported:
      return read_exported_program(path, options);
    case FileKind::kArtifact:
      throw Error(Errc::kUnsupported, label + " is a compressed artifact; expand it first");
    case FileKind::kTorchScript:
      throw Error(Errc::kUnsupported,
                  label + " is a TorchScript program; safetensors or a state dict was expected");
    case FileKind::kUnknown:
      break;
  }
  if (gguf::is_model(path)) return gguf::open_model(path, options.requantize);
  if (onnx::is_model(path)) return onnx::open_model(path, options.requantize);
  const std::string foreign = describe_foreign(MappedFile(path).bytes());
  throw Error(Errc::kUnsupported,
              label + " " +
                  (foreign.empty() ? "is neither safetensors nor a PyTorch state dict" : foreign));
}

/// In a flat list of names a part is what its tensors' names begin with.
void choose_part(TensorBundle& bundle, const std::string& part, const std::string& label) {
  const std::string start = part + ".";
  const std::size_t all = bundle.tensors.size();
  std::erase_if(bundle.tensors, [&](const TensorEntry& entry) {
    return !entry.name.starts_with(start) || entry.name.size() == start.size();
  });
  if (bundle.tensors.empty())
    throw Error(Errc::kNotFound, label + " has no part " + printable(part) +
                                     ": no tensor's name begins with " + printable(start));
  for (TensorEntry& entry : bundle.tensors) entry.name.erase(0, start.size());
  bundle.contents.clear();
  if (const std::size_t left = all - bundle.tensors.size(); left > 0)
    bundle.notes.push_back("left out: " + std::to_string(left) + " tensors outside of " +
                           printable(part));
}

/// A file that was written before its parameters were gathered.
void tell_empty(TensorBundle& bundle) {
  const bool none =
      std::all_of(bundle.tensors.begin(), bundle.tensors.end(), [](const TensorEntry& entry) {
        return std::find(entry.shape.begin(), entry.shape.end(), 0) != entry.shape.end();
      });
  if (none && !bundle.tensors.empty())
    bundle.notes.push_back(
        "the file holds no numbers: every tensor has a side of 0; gather the parameters before "
        "saving");
}

void mark_training(TensorBundle& bundle) {
  for (TensorEntry& entry : bundle.tensors)
    entry.exact = entry.shape.empty() || is_training_tensor(entry.name) ||
                  is_training_key(std::string_view(entry.name).substr(0, entry.name.find('.')));
}

}  // namespace

TensorBundle open_tensors(const std::filesystem::path& path, const OpenOptions& options) {
  if (options.keep_all && !options.part.empty())
    throw Error(Errc::kUsage, "a part of a checkpoint contradicts keeping all of it");
  const FileKind kind = sniff(path);
  TensorBundle bundle = open_kind(kind, path, options);
  const std::string label = printable(path.string());
  if (bundle.files.empty()) bundle.files.push_back(path);
  if (bundle.file_bytes == 0)
    bundle.file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(path));
  if (kind == FileKind::kUnknown) {
    if (!options.part.empty())
      throw Error(Errc::kUsage, label + " is " + (gguf::is_model(path) ? "a GGUF" : "an ONNX") +
                                    " model, which has no parts; leave out the part");
    return bundle;
  }
  const std::size_t notes = bundle.notes.size();
  const bool flat = kind == FileKind::kSafetensors || kind == FileKind::kFolder;
  if (!options.part.empty() && flat)
    choose_part(bundle, options.part, label);
  else if (options.keep_all && !flat)
    mark_training(bundle);
  const bool whole = bundle.left_out.empty() && bundle.notes.size() == notes;
  tell_empty(bundle);
  if (whole) return bundle;
  // A file's size says nothing about a model that is a part of it.
  bundle.file_bytes = 0;
  for (const TensorEntry& entry : distinct_tensors(bundle.tensors))
    bundle.file_bytes += static_cast<std::int64_t>(entry.bytes.size());
  return bundle;
}

}  // namespace gbcompress
