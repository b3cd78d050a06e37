#include "format/torch/legacy_file.h"

#include <cstdint>
#include <string_view>

#include "base/byte_reader.h"
#include "base/checked.h"
#include "format/torch/pickle_globals.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using Kind = PickleValue::Kind;

/// 0x1950a86a20f9469cfc6c as a LONG1, and the end of its pickle.
constexpr std::string_view kMagic = "\x8a\x0al\xfc\x9c\x46\xf9 j\xa8P\x19.";
constexpr std::int64_t kProtocol = 1001;

struct Declared {
  std::int64_t elements = 0;
  int item_bytes = 0;
};

class LegacyReader {
 public:
  LegacyReader(std::span<const std::byte> bytes, const std::string& label)
      : bytes_(bytes), label_(label) {}

  LegacyFile read() {
    LegacyFile file;
    pickle("first number");
    check_protocol(pickle("protocol number"));
    check_system(pickle("system description"));
    file.tree = pickle("object");
    const PickleTree keys = pickle("list of storages");
    const auto declared = storages_of(file.tree);
    if (keys[keys.root].kind != Kind::kList) corrupt("has no list of storages");
    for (const PickleHandle key : keys[keys.root].items) {
      if (keys[key].kind != Kind::kText) corrupt("lists a storage without a proper key");
      const auto found = declared.find(keys[key].text);
      if (found == declared.end())
        corrupt("lists the storage " + printable(keys[key].text.substr(0, 64)) +
                ", which no tensor has");
      if (!file.storages.emplace(found->first, storage(*found)).second)
        corrupt("lists the storage " + printable(found->first) + " twice");
    }
    return file;
  }

 private:
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + " " + what);
  }
  [[noreturn]] void cut(const std::string& where) const {
    throw Error(Errc::kTruncated, label_ + " is cut off: it ends after " +
                                      std::to_string(bytes_.size()) + " bytes, within its " +
                                      where + "; get it again, it was downloaded in part");
  }

  PickleTree pickle(const std::string& what) {
    const std::string label = label_ + ": " + what;
    try {
      std::size_t used = 0;
      PickleTree tree = read_pickle(bytes_.subspan(position_), label, &used);
      position_ += used;
      return tree;
    } catch (const Error& error) {
      if (error.code() == Errc::kTruncated) cut(what);
      throw;
    }
  }

  void check_protocol(const PickleTree& tree) const {
    if (tree[tree.root].kind != Kind::kInt || tree[tree.root].number != kProtocol)
      throw Error(Errc::kUnsupported, label_ + " has another protocol than PyTorch's 1001");
  }

  void check_system(const PickleTree& tree) const {
    const PickleValue& system = tree[tree.root];
    if (system.kind != Kind::kDict) corrupt("has no system description");
    for (std::size_t i = 0; i + 1 < system.items.size(); i += 2)
      if (tree[system.items[i]].text == "little_endian" && tree[system.items[i + 1]].number != 1)
        throw Error(Errc::kUnsupported, label_ +
                                            " holds big-endian numbers, only little-endian ones "
                                            "are read");
  }

  std::map<std::string, Declared> storages_of(const PickleTree& tree) const {
    std::map<std::string, Declared> result;
    for (const PickleValue& value : tree.values) {
      if (value.kind != Kind::kStorage) continue;
      const Declared declared{value.number,
                              find_pickle_global(tree[value.items[0]].text)->item_bytes};
      const auto [known, added] = result.emplace(value.text, declared);
      if (!added && (known->second.elements != declared.elements ||
                     known->second.item_bytes != declared.item_bytes))
        corrupt("describes the storage " + printable(value.text) + " in two ways");
    }
    return result;
  }

  std::span<const std::byte> storage(const std::pair<const std::string, Declared>& entry) {
    const std::string where = "storage " + printable(entry.first);
    ByteReader reader(bytes_.subspan(position_), label_);
    if (reader.remaining() < sizeof(std::int64_t)) cut(where);
    const auto elements = reader.read<std::int64_t>();
    if (elements < 0 || elements != entry.second.elements)
      corrupt("has " + std::to_string(elements) + " elements in " + where + ", " +
              std::to_string(entry.second.elements) + " were announced");
    const std::int64_t size =
        checked_mul(elements, entry.second.item_bytes, (label_ + ": " + where).c_str());
    if (static_cast<std::uint64_t>(size) > reader.remaining()) cut(where);
    const auto result = reader.take(static_cast<std::uint64_t>(size));
    position_ += reader.position();
    return result;
  }

  std::span<const std::byte> bytes_;
  const std::string& label_;
  std::size_t position_ = 0;
};

}  // namespace

bool is_legacy_file(std::span<const std::byte> bytes) noexcept {
  // Behind PROTO, and in protocol 4 and 5 behind a frame.
  constexpr std::size_t kPlain = 2, kFramed = 11;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (text.size() < kPlain || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return false;
  for (const std::size_t at : {kPlain, kFramed}) {
    if (at == kFramed && (text.size() < 3 || text[2] != '\x95')) continue;
    const std::string_view here = text.substr(std::min(at, text.size()), kMagic.size());
    if (kMagic.starts_with(here)) return true;
  }
  return false;
}

LegacyFile read_legacy_file(std::span<const std::byte> bytes, const std::string& label) {
  return LegacyReader(bytes, label).read();
}

}  // namespace gbcompress
