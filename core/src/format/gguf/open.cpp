#include "format/gguf/open.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string_view>

#include "base/file.h"
#include "base/mapped_inputs.h"
#include "format/container.h"
#include "format/file_kind.h"
#include "format/gguf/model.h"
#include "format/gguf/parts.h"
#include "format/gguf/pieces.h"
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
/// general.type of files whose tensors are weights. Statistics ("imatrix") and what is added to
/// weights ("adapter") are no weights to round.
constexpr std::array<std::string_view, 3> kModels = {"", "model", "mmproj"};

bool holds_weights(const GgufFile& model) {
  return std::find(kModels.begin(), kModels.end(), model.type) != kModels.end();
}

/// What of a file goes into the bundle.
struct Taken {
  const GgufTensor* tensor = nullptr;
  Piece piece;
  PayloadEncoding encoding = PayloadEncoding::kBytes;
};

/// One file of a model.
struct File {
  std::string location;  ///< beside the model's own; "": the model's own
  std::string label;
  std::span<const std::byte> bytes;
  GgufFile model = {};
  std::vector<Taken> taken = {};
};

/// Of types that DType lacks, rows of bytes.
TensorEntry entry_of(const Taken& taken, std::span<const std::byte> bytes) {
  const Piece& piece = taken.piece;
  TensorEntry entry{piece.name, DType::kU8, {static_cast<std::int64_t>(piece.size)}, bytes};
  if (piece.name != taken.tensor->name) entry.whole = taken.tensor->name;
  const Type* type = find_type(taken.tensor->type);
  if (!type) return entry;
  entry.first =
      static_cast<std::int64_t>(piece.offset - taken.tensor->offset) / type->bytes * type->elements;
  if (type->dtype) entry.dtype = *type->dtype;
  if (type->dtype || !piece.shape.empty()) entry.shape = piece.shape;
  if (!type->dtype) entry.block_type = type->number;
  if (!type->dtype) entry.shape.back() = entry.shape.back() / type->elements * type->bytes;
  return entry;
}

/// Makes the last tensor of a bundle real numbers. @return whether its blocks stand for some, and
/// are what Q8_0 makes of these: a tensor that stays exact has its bytes again
bool dequantize(const Piece& piece, TensorBundle& bundle) {
  TensorEntry& entry = bundle.tensors.back();
  auto values = from_q8_0(entry.bytes);
  if (!values || !std::ranges::equal(to_q8_0(*values), entry.bytes)) return false;
  release_pages(entry.bytes);
  auto owned = std::make_shared<std::vector<float>>(std::move(*values));
  entry.dtype = DType::kF32;
  entry.block_type = 0;
  entry.shape = piece.shape;
  entry.bytes = std::as_bytes(std::span(*owned));
  bundle.owners.push_back(std::move(owned));
  return true;
}

void take(File& file, TensorBundle& bundle, bool requantize) {
  for (const GgufTensor& tensor : file.model.tensors) {
    if (tensor.size == 0) continue;
    if (tensor.name == kContainerName)
      throw Error(Errc::kUnsupported, file.label + " has a tensor named " + tensor.name +
                                          ", which is reserved; rename the tensor");
    for (Piece& piece : pieces_of(tensor)) {
      file.taken.push_back({&tensor, std::move(piece)});
      Taken& taken = file.taken.back();
      bundle.tensors.push_back(
          entry_of(taken, file.bytes.subspan(taken.piece.offset, taken.piece.size)));
      bundle.tensors.back().exact = !holds_weights(file.model);
      if (requantize && tensor.type == kQ8_0 && dequantize(taken.piece, bundle))
        taken.encoding = PayloadEncoding::kQ8_0;
    }
  }
}

/// The file without the elements of its tensors.
/// @param place_of  the index of a name among the tensors of the bundle
ContainerFile without_elements(const File& file,
                               const std::function<std::size_t(std::string_view)>& place_of) {
  ContainerFile result{file.location, {}, {}};
  std::uint64_t from = 0;
  const auto append = [&](std::uint64_t until) {
    if (result.skeleton.size() + (until - from) > kMaxSkeleton)
      throw Error(Errc::kLimit, file.label + " has more than 4 GiB beside its tensors");
    const auto piece = file.bytes.subspan(from, until - from);
    result.skeleton.insert(result.skeleton.end(), piece.begin(), piece.end());
  };
  for (const Taken& taken : file.taken) {
    const Piece& piece = taken.piece;
    result.holes.push_back({place_of(piece.name), piece.offset - from, taken.encoding, {}});
    append(piece.offset);
    from = piece.offset + piece.size;
  }
  append(file.bytes.size());
  return result;
}

void add_container(TensorBundle& bundle, const std::vector<File>& files) {
  const auto before = [](const TensorEntry& entry, std::string_view name) {
    return entry.name < name;
  };
  const auto index_of = [&](std::string_view name) {
    const auto at = std::lower_bound(bundle.tensors.begin(), bundle.tensors.end(), name, before);
    return static_cast<std::size_t>(at - bundle.tensors.begin());
  };
  const std::size_t place = index_of(kContainerName);
  Container container{"gguf", {}};
  for (const File& file : files)
    container.files.push_back(without_elements(file, [&](std::string_view name) {
      const std::size_t index = index_of(name);
      return index < place ? index : index + 1;
    }));
  auto owned = std::make_shared<std::vector<std::byte>>(container.encode());
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

/// What is said of the element types of tensors.
class TypeNotes {
 public:
  explicit TypeNotes(const std::vector<File>& files) {
    for (const File& file : files)
      for (const Taken& each : file.taken) add(each);
  }

  std::string types() const { return types_text(in_order()); }

  void add_notes(TensorBundle& bundle, bool requantize) const {
    if (2 * kept_ > all_)
      bundle.notes.push_back("most weights are of a quantized type (" + in_order().front().second +
                             "), which is kept exact; the F16 model gives a smaller file" +
                             (bytes_.contains(kQ8_0) && !requantize
                                  ? ", and `requantize` compresses what Q8_0 stands for"
                                  : ""));
    if (requantize && blocks_.empty())
      bundle.notes.push_back("warning: `requantize` has no effect: no tensor is Q8_0");
    else if (requantize && !exact_.empty())
      bundle.notes.push_back(
          "warning: `requantize` has no effect on " + std::to_string(exact_.size()) + " of " +
          std::to_string(blocks_.size()) +
          " tensors of Q8_0, which are kept exact: their blocks are not what Q8_0 "
          "makes of their values");
  }

 private:
  void add(const Taken& each) {
    const Type* type = find_type(each.tensor->type);
    const bool read = each.encoding == PayloadEncoding::kQ8_0;
    bytes_[each.tensor->type] += each.piece.size;
    all_ += each.piece.size;
    if (!read && !(type && type->dtype)) kept_ += each.piece.size;
    if (each.tensor->type != kQ8_0) return;
    blocks_.insert(each.tensor);
    if (!read) exact_.insert(each.tensor);
  }

  std::vector<std::pair<std::uint64_t, std::string>> in_order() const {
    std::vector<std::pair<std::uint64_t, std::string>> types;
    for (const auto& [type, size] : bytes_) types.emplace_back(size, type_name(type));
    std::sort(types.begin(), types.end(), [](const auto& a, const auto& b) {
      return a.first > b.first || (a.first == b.first && a.second < b.second);
    });
    return types;
  }

  std::map<std::uint32_t, std::uint64_t> bytes_;
  std::uint64_t all_ = 0, kept_ = 0;
  std::set<const GgufTensor*> blocks_, exact_;  ///< of Q8_0; of these, at least in part
};

/// @param requantize  whether Q8_0 tensors are real numbers where they can be
void describe(TensorBundle& bundle, const std::vector<File>& files, bool requantize) {
  const GgufFile& model = files.front().model;
  const TypeNotes types(files);
  bundle.metadata = model.metadata;
  bundle.metadata["GGUF version"] = std::to_string(model.version);
  bundle.metadata["element types"] = types.types();
  if (files.size() > 1) bundle.metadata["files"] = std::to_string(files.size());
  if (bundle.tensors.size() == 1)
    bundle.notes.push_back("the file holds no weights: all of it is metadata and stored exactly");
  else if (!holds_weights(model))
    bundle.notes.push_back("general.type is " + model.type +
                           ": its tensors are not the weights of a model and are kept exact");
  else
    types.add_notes(bundle, requantize);
}

TensorBundle bundle_of(std::vector<File>& files, bool requantize) {
  TensorBundle bundle;
  for (File& file : files) take(file, bundle, requantize);
  sort_by_name(bundle, files.front().label);
  share_equal(bundle);
  add_container(bundle, files);
  for (const File& file : files) bundle.file_bytes += static_cast<std::int64_t>(file.bytes.size());
  describe(bundle, files, requantize);
  return bundle;
}

/// The files of a model on disk, and their owners.
struct Opened {
  std::vector<File> files;
  std::vector<std::shared_ptr<const void>> owners;
  PartFiles parts;
};

Opened open_files(const std::filesystem::path& path) {
  Opened opened;
  const auto add = [&](const std::filesystem::path& file) {
    auto map = std::make_shared<MappedFile>(file);
    File next{opened.files.empty() ? "" : file.filename().string(), printable(file.string()),
              map->bytes()};
    next.model = parse(next.bytes, next.label);
    opened.files.push_back(std::move(next));
    opened.owners.push_back(std::move(map));
  };
  add(path);
  opened.parts = part_files(path, opened.files.front().model);
  const std::size_t count = opened.parts.files.size();
  for (std::size_t i = 1; i < count; ++i) {
    add(opened.parts.files[i]);
    check_part(opened.files.back().model, i, count, opened.files.back().label);
  }
  return opened;
}

}  // namespace

TensorBundle read_model(std::span<const std::byte> bytes, const std::string& label,
                        bool requantize) {
  std::vector<File> files;
  files.push_back({"", label, bytes, parse(bytes, label)});
  return bundle_of(files, requantize);
}

TensorBundle open_model(const std::filesystem::path& path, bool requantize) {
  Opened opened = open_files(path);
  TensorBundle bundle = bundle_of(opened.files, requantize);
  bundle.owners.insert(bundle.owners.end(), opened.owners.begin(), opened.owners.end());
  bundle.files = opened.parts.files;
  if (!opened.parts.note.empty()) bundle.notes.push_back(opened.parts.note);
  return bundle;
}

std::map<std::string, std::string> open_types(const std::filesystem::path& path) {
  std::map<std::string, std::string> types;
  for (const File& file : open_files(path).files)
    for (const GgufTensor& tensor : file.model.tensors)
      for (const Piece& piece : pieces_of(tensor)) types[piece.name] = type_name(tensor.type);
  return types;
}

std::vector<std::filesystem::path> open_parts(const std::filesystem::path& path) {
  const MappedFile map(path);
  return part_files(path, parse(map.bytes(), printable(path.string()))).files;
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
