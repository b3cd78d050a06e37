#include "format/state_dict.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "base/checked.h"
#include "base/file.h"
#include "base/text.h"
#include "format/file_kind.h"
#include "format/pickle.h"
#include "format/zip_archive.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;
constexpr std::size_t kMaxDepth = 64, kMaxVisits = 4'000'000;

class Collector {
 public:
  Collector(const ZipArchive& zip, std::string folder, const std::string& label,
            std::uint64_t file_bytes)
      : zip_(zip), folder_(std::move(folder)), label_(label), copy_budget_(4 * file_bytes) {}

  TensorBundle collect(const PickleTree& tree) {
    if (tree.values[tree.root].kind != Kind::kDict)
      throw Error(Errc::kUnsupported, label_ + " does not hold a dictionary of tensors");
    visit(tree, tree.root, "", 0);
    auto& tensors = bundle_.tensors;
    if (tensors.empty()) throw Error(Errc::kUnsupported, label_ + " holds no tensors");
    std::sort(tensors.begin(), tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    const auto twice = std::adjacent_find(
        tensors.begin(), tensors.end(),
        [](const TensorEntry& a, const TensorEntry& b) { return a.name == b.name; });
    if (twice != tensors.end())
      throw Error(Errc::kCorrupt, label_ + " holds tensor " + printable(twice->name) + " twice");
    return std::move(bundle_);
  }

 private:
  void visit(const PickleTree& tree, PickleHandle at, const std::string& name, std::size_t depth) {
    // Containers may hold each other many times over: both bounds are needed.
    if (depth > kMaxDepth || ++visits_ > kMaxVisits || name.size() > 4 * kMaxTensorName)
      throw Error(Errc::kLimit, label_ + " nests its dictionaries too deep");
    const PickleValue& value = tree.values[at];
    const std::string prefix = name.empty() ? "" : name + ".";
    if (value.kind == Kind::kTensor) {
      add(tree, value, name);
    } else if (value.kind == Kind::kDict) {
      for (std::size_t i = 0; i < value.items.size(); i += 2)
        visit(tree, value.items[i + 1], prefix + key_text(tree.values[value.items[i]]), depth + 1);
    } else if (value.kind == Kind::kList || value.kind == Kind::kTuple) {
      for (std::size_t i = 0; i < value.items.size(); ++i)
        visit(tree, value.items[i], prefix + std::to_string(i), depth + 1);
    }
  }

  std::string key_text(const PickleValue& key) const {
    if (key.kind == Kind::kText) return key.text;
    if (key.kind == Kind::kInt) return std::to_string(key.number);
    throw Error(Errc::kUnsupported,
                label_ + " has a dictionary key that is neither text nor number");
  }

  std::vector<std::int64_t> numbers(const PickleTree& tree, PickleHandle tuple,
                                    const std::string& what) const {
    std::vector<std::int64_t> result;
    for (const PickleHandle item : tree.values[tuple].items) {
      if (tree.values[item].kind != Kind::kInt || tree.values[item].number < 0)
        throw Error(Errc::kCorrupt, what + " has a size or stride that is not a whole number");
      result.push_back(tree.values[item].number);
    }
    return result;
  }

  /// Bytes of a storage; its CRC-32 is worked out once however many tensors share it.
  std::span<const std::byte> storage(const std::string& key) {
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    return storages_[key] = zip_.read(folder_ + "data/" + key);
  }

  void add(const PickleTree& tree, const PickleValue& value, const std::string& name) {
    check_tensor_name(name, label_);
    if (bundle_.tensors.size() == kMaxTensors)
      throw Error(Errc::kLimit, label_ + " has more than 1,000,000 tensors");
    const std::string what = label_ + ": tensor " + printable(name);
    TensorEntry entry{name, *value.dtype, numbers(tree, value.items[1], what), {}};
    const auto strides = numbers(tree, value.items[2], what);
    const std::int64_t bytes = tensor_bytes(entry.dtype, entry.shape, what);
    if (strides.size() != entry.shape.size() || value.number < 0)
      throw Error(Errc::kCorrupt, what + " has sizes, strides and offset that do not fit");
    if (bytes > 0)
      entry.bytes = view_or_copy(tree.values[value.items[0]], value.number, entry, strides, what);
    bundle_.tensors.push_back(std::move(entry));
  }

  /// Not for empty tensors.
  std::span<const std::byte> view_or_copy(const PickleValue& store, std::int64_t offset,
                                          const TensorEntry& entry,
                                          const std::vector<std::int64_t>& strides,
                                          const std::string& what) {
    const std::int64_t item = dtype_bits(entry.dtype) / 8;
    const std::string reach = what + ": what it reaches";
    std::int64_t last = offset, elements = 1;
    bool contiguous = true;
    for (std::size_t d = entry.shape.size(); d-- > 0;) {
      const std::int64_t side = entry.shape[d];
      last = checked_add(last, checked_mul(side - 1, strides[d], reach.c_str()), reach.c_str());
      contiguous = contiguous && (side == 1 || strides[d] == elements);
      elements *= side;  // tensor_bytes() has checked the product
    }
    const auto bytes = storage(store.text);
    const std::int64_t end = checked_mul(checked_add(last, 1, reach.c_str()), item, reach.c_str());
    if (static_cast<std::uint64_t>(end) > bytes.size())
      throw Error(Errc::kCorrupt, what + " reaches beyond its storage of " +
                                      std::to_string(bytes.size()) + " bytes");
    const auto size = static_cast<std::size_t>(elements * item);
    if (contiguous) return bytes.subspan(static_cast<std::size_t>(offset * item), size);
    // Overlapping strides could ask for far more than the file holds.
    if (size > copy_budget_)
      throw Error(Errc::kLimit, what +
                                    " repeats its storage many times over; save a .contiguous() "
                                    "copy of it");
    copy_budget_ -= size;
    auto copy = std::make_shared<std::vector<std::byte>>(size);
    gather(bytes.data() + offset * item, entry.shape, strides, item, copy->data());
    const std::span<const std::byte> result(*copy);
    bundle_.owners.push_back(std::move(copy));
    return result;
  }

  /// Copies a strided tensor into row-major order.
  static void gather(const std::byte* from, const std::vector<std::int64_t>& shape,
                     const std::vector<std::int64_t>& strides, std::int64_t item, std::byte* to) {
    std::vector<std::int64_t> index(shape.size(), 0);
    for (std::int64_t at = 0;;) {
      std::memcpy(to, from + at * item, static_cast<std::size_t>(item));
      to += item;
      std::size_t d = shape.size();
      while (d-- > 0) {
        at += strides[d];
        if (++index[d] < shape[d]) break;
        at -= strides[d] * shape[d];
        index[d] = 0;
        if (d == 0) return;
      }
    }
  }

  const ZipArchive& zip_;
  const std::string folder_;
  const std::string& label_;
  std::uint64_t copy_budget_;
  std::size_t visits_ = 0;
  std::unordered_map<std::string, std::span<const std::byte>> storages_;
  TensorBundle bundle_;
};

}  // namespace

TensorBundle read_state_dict(std::span<const std::byte> bytes, const std::string& label) {
  switch (sniff_bytes(bytes, label)) {
    case FileKind::kStateDict:
      break;
    case FileKind::kTorchScript:
      throw Error(Errc::kUnsupported, label + " is a TorchScript program, not a state dict");
    default:
      throw Error(Errc::kUnsupported, label + " is not a PyTorch state dict");
  }
  if (bytes[0] != std::byte{'P'})
    throw Error(Errc::kUnsupported, label +
                                        " is in PyTorch's format before 1.6; load it in a newer "
                                        "one and save it again");
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
  return Collector(zip, folder, label, bytes.size()).collect(tree);
}

TensorBundle read_state_dict(const std::filesystem::path& path) {
  auto map = std::make_shared<const MappedFile>(path);
  TensorBundle bundle = read_state_dict(map->bytes(), printable(path.string()));
  bundle.owners.push_back(std::move(map));
  return bundle;
}

}  // namespace gbcompress
