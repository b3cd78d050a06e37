#include "format/torch/state_dict.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <unordered_map>

#include "base/checked.h"
#include "base/file.h"
#include "format/file_kind.h"
#include "format/torch/checkpoint.h"
#include "format/torch/legacy_file.h"
#include "format/torch/strided.h"
#include "format/zip_archive.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

/// Gives the bytes of a whole storage by its key.
using StorageSource = std::function<std::span<const std::byte>(const std::string& key)>;

/// Turns values of a pickle into tensors.
class Collector {
 public:
  Collector(const PickleTree& tree, StorageSource storages, const std::string& label,
            std::uint64_t file_bytes)
      : tree_(tree), storages_(std::move(storages)), label_(label), reader_(bundle_, file_bytes) {}

  TensorBundle collect(FoundModel found) {
    for (const auto& [name, value] : found.values) add(tree_[value], name);
    bundle_.notes = std::move(found.notes);
    bundle_.left_out = std::move(found.left_out);
    return std::move(bundle_);
  }

 private:
  void add(const PickleValue& value, const std::string& name) {
    check_tensor_name(name, label_);
    const std::string what = label_ + ": tensor " + printable(name);
    TensorEntry entry{name, DType::kBool, {}, {}};
    if (value.kind == Kind::kTensor)
      fill(entry, value, what);
    else
      fill_numbers(entry, value, what);
    bundle_.tensors.push_back(std::move(entry));
  }

  void fill(TensorEntry& entry, const PickleValue& value, const std::string& what) {
    entry.dtype = *value.dtype;
    entry.shape = sizes(value.items[1], what);
    const bool pairs = entry.dtype == DType::kF4;
    if (pairs) entry.dtype = DType::kU8;
    tensor_bytes(entry.dtype, entry.shape, what);
    reader_.read(entry, storage(tree_[value.items[0]], what), value.number,
                 sizes(value.items[2], what), what);
    if (pairs) unpack_sides(entry, what);
  }

  /// PyTorch counts bytes of two elements each, files of tensors count elements.
  void unpack_sides(TensorEntry& entry, const std::string& what) {
    if (entry.shape.empty()) entry.shape = {1};
    entry.shape.back() = checked_mul(entry.shape.back(), 2, what.c_str());
    entry.dtype = DType::kF4;
    tensor_bytes(entry.dtype, entry.shape, what);
    entry.stored = {};  // dimensions of bytes, not of elements
    entry.order.clear();
  }

  std::vector<std::int64_t> sizes(PickleHandle tuple, const std::string& what) const {
    std::vector<std::int64_t> result;
    for (const PickleHandle item : tree_[tuple].items) {
      if (tree_[item].kind != Kind::kInt || tree_[item].number < 0)
        throw Error(Errc::kCorrupt,
                    what + " has a size or stride that is not a non-negative integer");
      result.push_back(tree_[item].number);
    }
    return result;
  }

  std::span<const std::byte> storage(const PickleValue& value, const std::string& what) {
    // Its CRC-32 is worked out once however many tensors share it.
    const auto [known, added] = known_.try_emplace(value.text);
    if (added) known->second = storages_(value.text);
    const auto whole = known->second;
    if (value.items.size() < 3) return whole;
    const std::int64_t first = tree_[value.items[1]].number, count = tree_[value.items[2]].number;
    const std::int64_t item = value.dtype ? dtype_bits(*value.dtype) / 8 : 1;  // of a view's class
    const auto elements = static_cast<std::int64_t>(whole.size()) / item;
    if (first < 0 || count < 0 || first > elements || count > elements - first)
      throw Error(Errc::kCorrupt, what + " reaches beyond its storage of " +
                                      std::to_string(whole.size()) + " bytes");
    return whole.subspan(static_cast<std::size_t>(first * item),
                         static_cast<std::size_t>(count * item));
  }

  /// Numbers of a checkpoint that is kept whole.
  void fill_numbers(TensorEntry& entry, const PickleValue& value, const std::string& what) {
    const bool list = value.kind == Kind::kList || value.kind == Kind::kTuple;
    const PickleValue& first = list ? tree_[value.items[0]] : value;
    entry.dtype = first.kind == Kind::kBool  ? DType::kBool
                  : first.kind == Kind::kInt ? DType::kI64
                                             : DType::kF64;
    const std::size_t count = list ? value.items.size() : 1;
    if (list) entry.shape = {static_cast<std::int64_t>(count)};
    const auto item = static_cast<std::size_t>(dtype_bits(entry.dtype) / 8);
    const std::span<std::byte> room = reader_.own(count * item, what);
    for (std::size_t i = 0; i < count; ++i) {
      const std::int64_t number = list ? tree_[value.items[i]].number : value.number;
      std::memcpy(room.data() + i * item, &number, item);  // little-endian: a truth value's too
    }
    entry.bytes = room;
  }

  const PickleTree& tree_;
  const StorageSource storages_;
  const std::string& label_;
  TensorBundle bundle_;
  StridedReader reader_;
  std::unordered_map<std::string, std::span<const std::byte>> known_;
};

/// Takes off the prefixes that wrappers of modules put before every name.
void strip_wrappers(TensorBundle& bundle) {
  std::string stripped;
  for (bool again = !bundle.tensors.empty(); again;) {
    again = false;
    for (const std::string prefix : {"module.", "_orig_mod."}) {
      const bool shared =
          std::all_of(bundle.tensors.begin(), bundle.tensors.end(), [&](const TensorEntry& entry) {
            return entry.name.starts_with(prefix) && entry.name.size() > prefix.size();
          });
      if (!shared) continue;
      for (TensorEntry& entry : bundle.tensors) entry.name.erase(0, prefix.size());
      stripped += prefix;
      again = true;
    }
  }
  if (!stripped.empty())
    bundle.notes.push_back("all names begin with \"" + stripped + "\", which is taken off");
}

TensorBundle collect(const PickleTree& tree, StorageSource storages, const std::string& label,
                     std::uint64_t file_bytes, const OpenOptions& options) {
  TensorBundle bundle = Collector(tree, std::move(storages), label, file_bytes)
                            .collect(find_model(tree, options, label));
  if (!options.keep_all) strip_wrappers(bundle);
  sort_by_name(bundle, label);
  return bundle;
}

TensorBundle read_zip(std::span<const std::byte> bytes, const std::string& label,
                      const OpenOptions& options) {
  const ZipArchive zip(bytes, label);
  const std::string folder = state_dict_folder(zip, label);
  if (zip.contains(folder + "byteorder")) {
    const auto order = zip.read(folder + "byteorder");
    if (std::string_view(reinterpret_cast<const char*>(order.data()), order.size()) != "little")
      throw Error(Errc::kUnsupported, label +
                                          " holds big-endian numbers, only little-endian ones "
                                          "are read");
  }
  const std::string pickle_label = label + ": data.pkl";
  const PickleTree tree = read_pickle(zip.read(folder + "data.pkl"), pickle_label);
  return collect(
      tree, [&](const std::string& key) { return zip.read(folder + "data/" + key); }, label,
      bytes.size(), options);
}

TensorBundle read_legacy(std::span<const std::byte> bytes, const std::string& label,
                         const OpenOptions& options) {
  const LegacyFile file = read_legacy_file(bytes, label);
  const auto storage = [&](const std::string& key) {
    const auto found = file.storages.find(key);
    if (found == file.storages.end())
      throw Error(Errc::kCorrupt, label + " lacks the storage " + printable(key));
    return found->second;
  };
  return collect(file.tree, storage, label, bytes.size(), options);
}

}  // namespace

TensorBundle read_state_dict(std::span<const std::byte> bytes, const std::string& label,
                             const OpenOptions& options) {
  switch (sniff_bytes(bytes, label)) {
    case FileKind::kStateDict:
      break;
    case FileKind::kTorchScript:
      throw Error(Errc::kUnsupported, label + " is a TorchScript program, not a state dict");
    default:
      throw Error(Errc::kUnsupported, label + " is not a PyTorch state dict");
  }
  if (bytes[0] == std::byte{'P'}) return read_zip(bytes, label, options);
  if (is_legacy_file(bytes)) return read_legacy(bytes, label, options);
  throw Error(Errc::kUnsupported,
              label +
                  " is a Python pickle that torch.save did not write; load it in Python and "
                  "save its tensors as safetensors");
}

TensorBundle read_state_dict(const std::filesystem::path& path, const OpenOptions& options) {
  auto map = std::make_shared<const MappedFile>(path);
  TensorBundle bundle = read_state_dict(map->bytes(), printable(path.string()), options);
  if (options.part.empty()) bundle.contents.push_back(map->bytes());
  bundle.owners.push_back(std::move(map));
  return bundle;
}

}  // namespace gbcompress
