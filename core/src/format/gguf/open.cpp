#include "format/gguf/open.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <string_view>

#include "base/file.h"
#include "format/container.h"
#include "format/file_kind.h"
#include "format/gguf/model.h"
#include "format/gguf/types.h"
#include "format/payload.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress::gguf {
namespace {

constexpr std::string_view kMagic = "GGUF";
/// Factors of rotary embeddings: a table that is no weight.
constexpr std::array<std::string_view, 3> kTables = {
    "rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"};

/// What of a file goes into the bundle.
struct Taken {
  const GgufTensor* tensor = nullptr;
  PayloadEncoding encoding = PayloadEncoding::kBytes;
};

/// Of types that DType lacks, rows of bytes.
TensorEntry entry_of(const GgufTensor& tensor, std::span<const std::byte> bytes) {
  TensorEntry entry{tensor.name, DType::kU8, {static_cast<std::int64_t>(tensor.size)}, bytes};
  const Type* type = find_type(tensor.type);
  if (!type) return entry;
  if (type->dtype) entry.dtype = *type->dtype;
  if (type->dtype || !tensor.shape.empty()) entry.shape = tensor.shape;
  if (!type->dtype) entry.shape.back() = entry.shape.back() / type->elements * type->bytes;
  return entry;
}

/// Makes the last tensor of a bundle real numbers. @return whether its blocks stand for some, and
/// are what Q8_0 makes of these: a tensor that stays exact has its bytes again
bool dequantize(const GgufTensor& tensor, TensorBundle& bundle) {
  TensorEntry& entry = bundle.tensors.back();
  auto values = from_q8_0(entry.bytes);
  if (!values || !std::ranges::equal(to_q8_0(*values), entry.bytes)) return false;
  auto owned = std::make_shared<std::vector<float>>(std::move(*values));
  entry.dtype = DType::kF32;
  entry.shape = tensor.shape;
  entry.bytes = std::as_bytes(std::span(*owned));
  bundle.owners.push_back(std::move(owned));
  return true;
}

/// The file without the elements of the tensors in `places`, indices of the bundle.
std::vector<std::byte> container_of(std::span<const std::byte> bytes,
                                    const std::vector<Taken>& tensors,
                                    const std::vector<std::size_t>& places,
                                    const std::string& label) {
  ContainerFile file;
  std::uint64_t from = 0;
  const auto append = [&](std::uint64_t until) {
    if (file.skeleton.size() + (until - from) > kMaxSkeleton)
      throw Error(Errc::kLimit, label + " has more than 4 GiB beside its tensors");
    const auto piece = bytes.subspan(from, until - from);
    file.skeleton.insert(file.skeleton.end(), piece.begin(), piece.end());
  };
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const GgufTensor& tensor = *tensors[i].tensor;
    file.holes.push_back({places[i], tensor.offset - from, tensors[i].encoding, {}});
    append(tensor.offset);
    from = tensor.offset + tensor.size;
  }
  append(bytes.size());
  Container container{"gguf", {}};
  container.files.push_back(std::move(file));
  return container.encode();
}

void add_container(TensorBundle& bundle, std::span<const std::byte> bytes,
                   const std::vector<Taken>& tensors, const std::string& label) {
  const auto before = [](const TensorEntry& entry, std::string_view name) {
    return entry.name < name;
  };
  const auto index_of = [&](std::string_view name) {
    const auto at = std::lower_bound(bundle.tensors.begin(), bundle.tensors.end(), name, before);
    return static_cast<std::size_t>(at - bundle.tensors.begin());
  };
  const std::size_t place = index_of(kContainerName);
  std::vector<std::size_t> places;
  for (const Taken& each : tensors) {
    const std::size_t index = index_of(each.tensor->name);
    places.push_back(index < place ? index : index + 1);
  }
  auto owned =
      std::make_shared<std::vector<std::byte>>(container_of(bytes, tensors, places, label));
  TensorEntry entry{
      std::string(kContainerName), DType::kU8, {static_cast<std::int64_t>(owned->size())}, *owned};
  bundle.tensors.insert(bundle.tensors.begin() + static_cast<std::ptrdiff_t>(place),
                        std::move(entry));
  bundle.owners.push_back(std::move(owned));
}

/// "Q4_K, F32", in their order.
std::string types_text(const std::vector<std::pair<std::uint64_t, std::string>>& types) {
  std::string text;
  for (const auto& [bytes, type] : types) text += (text.empty() ? "" : ", ") + type;
  return text;
}

/// @param requantize  whether Q8_0 tensors are real numbers where they can be
void describe(TensorBundle& bundle, const GgufFile& model, const std::vector<Taken>& taken,
              bool requantize) {
  std::map<std::uint32_t, std::uint64_t> bytes;
  std::uint64_t all = 0, kept = 0;
  std::size_t blocks = 0, real = 0;  // tensors of Q8_0
  for (const Taken& each : taken) {
    const GgufTensor& tensor = *each.tensor;
    const Type* type = find_type(tensor.type);
    const bool read = each.encoding == PayloadEncoding::kQ8_0;
    bytes[tensor.type] += tensor.size;
    all += tensor.size;
    if (!read && !(type && type->dtype)) kept += tensor.size;
    blocks += tensor.type == kQ8_0 ? 1 : 0;
    real += read ? 1 : 0;
  }
  std::vector<std::pair<std::uint64_t, std::string>> types;
  for (const auto& [type, size] : bytes) types.emplace_back(size, type_name(type));
  std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) {
    return a.first > b.first || (a.first == b.first && a.second < b.second);
  });
  bundle.metadata = model.metadata;
  bundle.metadata["GGUF version"] = std::to_string(model.version);
  bundle.metadata["element types"] = types_text(types);
  if (2 * kept > all)
    bundle.notes.push_back("most weights are of a quantized type (" + types.front().second +
                           "), which is kept exact; the F16 model gives a smaller file" +
                           (bytes.contains(kQ8_0) && !requantize
                                ? ", and `requantize` compresses what Q8_0 stands for"
                                : ""));
  if (requantize && blocks == 0)
    bundle.notes.push_back("warning: `requantize` has no effect: no tensor is Q8_0");
  else if (requantize && real < blocks)
    bundle.notes.push_back("warning: `requantize` has no effect on " +
                           std::to_string(blocks - real) + " of " + std::to_string(blocks) +
                           " tensors of Q8_0, which are kept exact: their blocks are not what Q8_0 "
                           "makes of their values");
  if (model.parts > 1)
    bundle.notes.push_back("the model is in " + std::to_string(model.parts) +
                           " files, and this is one; compress each of them");
}

}  // namespace

TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        bool requantize) {
  const GgufFile model = parse(bytes, label);
  std::vector<Taken> taken;
  TensorBundle bundle;
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.size == 0) continue;
    if (tensor.name == kContainerName)
      throw Error(Errc::kUnsupported, label + " has a tensor named " + tensor.name +
                                          ", which is reserved; rename the tensor");
    taken.push_back({&tensor, PayloadEncoding::kBytes});
    bundle.tensors.push_back(entry_of(tensor, bytes.subspan(tensor.offset, tensor.size)));
    if (requantize && tensor.type == kQ8_0 && dequantize(tensor, bundle))
      taken.back().encoding = PayloadEncoding::kQ8_0;
  }
  if (taken.empty())
    throw Error(Errc::kUnsupported,
                label +
                    " holds no weights (a vocabulary alone, or the first part of a split "
                    "model); there is nothing to compress");
  sort_by_name(bundle, label);
  share_equal(bundle);
  add_container(bundle, bytes, taken, label);
  bundle.file_bytes = static_cast<std::int64_t>(bytes.size());
  describe(bundle, model, taken, requantize);
  return bundle;
}

TensorBundle open_model(const std::filesystem::path& path, bool requantize) {
  auto map = std::make_shared<MappedFile>(path);
  TensorBundle bundle = read_model(map->bytes(), printable(path.string()), requantize);
  bundle.owners.push_back(std::move(map));
  bundle.files.push_back(path);
  return bundle;
}

std::map<std::string, std::string> open_types(const std::filesystem::path& path) {
  const MappedFile map(path);
  std::map<std::string, std::string> types;
  for (const GgufTensor& tensor : parse(map.bytes(), printable(path.string())).tensors)
    types[tensor.name] = type_name(tensor.type);
  return types;
}

TensorHints hints(const TensorBundle& bundle) {
  TensorHints hints;
  for (const std::string_view name : kTables)
    if (bundle.find(name)) hints[std::string(name)].kind = TensorHint::Kind::kExact;
  return hints;
}

bool looks_like_model(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kMagic.size() &&
         std::ranges::equal(bytes.first(kMagic.size()), std::as_bytes(std::span(kMagic)));
}

bool is_model(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const MappedFile map(path);
  if (looks_like_model(map.bytes())) return true;
  return path.extension() == ".gguf" && !map.bytes().empty() &&
         describe_foreign(map.bytes()).empty() && describe_stand_in(map.bytes()).empty();
}

}  // namespace gbcompress::gguf
