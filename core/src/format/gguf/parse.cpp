#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/checked.h"
#include "format/gguf/model.h"
#include "format/gguf/types.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress::gguf {
namespace {

/// Versions 2 and 3 differ in nothing but big-endian files, which version 3 allows.
constexpr std::uint32_t kFirstVersion = 2, kLastVersion = 3;
constexpr std::size_t kMaxKey = 65'535, kShownText = 100;
/// Name, dimensions, type and offset of a tensor; key, type and value of metadata.
constexpr std::uint64_t kLeastTensor = 8 + 4 + 4 + 8, kLeastKey = 8 + 4 + 1;
constexpr std::uint64_t kLeastText = 8, kLeastArray = 4 + 8;
constexpr const char* kAgain = "; load the file again";

enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kFloat,
  kBool,
  kText,
  kArray,
  kU64,
  kI64,
  kDouble,
  kValueTypes
};
/// Bytes of a value; 0: as many as it says.
constexpr std::array<std::uint64_t, kValueTypes> kValueBytes = {1, 1, 2, 2, 4, 4, 4,
                                                                1, 0, 0, 8, 8, 8};

class Parser {
 public:
  Parser(std::span<const std::byte> bytes, const std::string& label)
      : bytes_(bytes), label_(label) {}

  GgufFile run() {
    if (bytes_.empty()) throw Error(Errc::kTruncated, label_ + " is empty");
    const auto [tensors, keys] = head();
    for (std::uint64_t i = 0; i < keys; ++i) key();
    for (std::uint64_t i = 0; i < tensors; ++i) tensor();
    place();
    return std::move(model_);
  }

 private:
  [[noreturn]] void corrupt(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + " is damaged: " + what + kAgain);
  }

  std::span<const std::byte> take(std::uint64_t size) {
    if (size > left())
      throw Error(Errc::kTruncated, label_ + " ends at byte " + std::to_string(bytes_.size()) +
                                        ", within the list of its metadata and tensors" + kAgain);
    const auto taken = bytes_.subspan(at_, size);
    at_ += size;
    return taken;
  }
  template <typename T>
  T read() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  std::string_view text() {
    const auto taken = take(read<std::uint64_t>());
    return {reinterpret_cast<const char*>(taken.data()), taken.size()};
  }
  std::uint64_t left() const noexcept { return bytes_.size() - at_; }

  /// @return how many tensors and keys there are
  std::pair<std::uint64_t, std::uint64_t> head() {
    if (!std::ranges::equal(take(4), std::as_bytes(std::span("GGUF", 4))))
      corrupt("it does not begin with GGUF");
    model_.version = read<std::uint32_t>();
    if (model_.version == __builtin_bswap32(kLastVersion))
      throw Error(Errc::kUnsupported,
                  label_ +
                      " is a big-endian GGUF file, which is not read; convert the model again "
                      "for a little-endian machine");
    if (model_.version < kFirstVersion || model_.version > kLastVersion)
      throw Error(Errc::kUnsupported,
                  label_ + " has version " + std::to_string(model_.version) +
                      " of GGUF, and versions 2 and 3 are read; convert the model again");
    const auto tensors = read<std::uint64_t>(), keys = read<std::uint64_t>();
    if (tensors > left() / kLeastTensor || tensors > kMaxTensors)
      corrupt(std::to_string(tensors) + " tensors do not fit into it");
    if (keys > left() / kLeastKey || keys > kMaxKeys)
      corrupt(std::to_string(keys) + " keys of metadata do not fit into it");
    return {tensors, keys};
  }

  void key() {
    const std::string_view name = text();
    if (name.empty() || name.size() > kMaxKey)
      corrupt("a key of its metadata has " + std::to_string(name.size()) + " bytes");
    const auto type = read<std::uint32_t>();
    const std::size_t from = at_;
    std::string shown = value(type, 0);
    if (!model_.metadata.emplace(printable(name), std::move(shown)).second)
      corrupt("its metadata have the key " + printable(name) + " twice");
    if (name == "general.alignment") {
      const std::uint64_t alignment = whole_number(type, from, name);
      if (!std::has_single_bit(alignment) || alignment > kMaxAlignment)
        corrupt("general.alignment is " + std::to_string(alignment) +
                ", and a power of two up to " + std::to_string(kMaxAlignment) + " is possible");
      model_.alignment = alignment;
    }
    if (name == "split.count") model_.parts = whole_number(type, from, name);
    if (name == "split.no") model_.part = whole_number(type, from, name);
    if (name == "general.type" && type == kText)
      model_.type = model_.metadata.at(std::string(name));
  }

  /// Of an unsigned type.
  std::uint64_t whole_number(std::uint32_t type, std::size_t from, std::string_view key) const {
    if (type != kU8 && type != kU16 && type != kU32 && type != kU64)
      corrupt(std::string(key) + " is no unsigned number");
    std::uint64_t number = 0;
    std::memcpy(&number, bytes_.data() + from, kValueBytes[type]);
    return number;
  }

  /// Passes over a value. @return it for people
  std::string value(std::uint32_t type, int depth) {
    if (type >= kValueTypes) corrupt("a value has the unknown type " + std::to_string(type));
    if (type == kArray) return array(depth);
    if (type == kText) {
      const std::string_view all = text();
      if (depth > 0) return {};
      return all.size() <= kShownText ? printable(all)
                                      : "text of " + std::to_string(all.size()) + " bytes";
    }
    const auto bytes = take(kValueBytes[type]);
    return depth > 0 ? std::string() : number(type, bytes);
  }

  static std::string number(std::uint32_t type, std::span<const std::byte> bytes) {
    const auto as = [&]<typename T>(T value) {
      std::memcpy(&value, bytes.data(), sizeof value);
      return value;
    };
    const auto real = [](double value) {
      std::array<char, 32> text{};
      std::snprintf(text.data(), text.size(), "%g", value);
      return std::string(text.data());
    };
    if (type == kFloat) return real(static_cast<double>(as(0.0F)));
    if (type == kDouble) return real(as(0.0));
    if (type == kBool) return bytes[0] == std::byte{0} ? "false" : "true";
    if (type == kI8) return std::to_string(as(std::int8_t{0}));
    if (type == kI16) return std::to_string(as(std::int16_t{0}));
    if (type == kI32) return std::to_string(as(std::int32_t{0}));
    if (type == kI64) return std::to_string(as(std::int64_t{0}));
    std::uint64_t whole = 0;
    std::memcpy(&whole, bytes.data(), bytes.size());
    return std::to_string(whole);
  }

  std::string array(int depth) {
    if (depth >= kMaxArrays)
      corrupt("arrays lie more than " + std::to_string(kMaxArrays) + " deep in its metadata");
    const auto type = read<std::uint32_t>();
    const auto count = read<std::uint64_t>();
    if (type >= kValueTypes) corrupt("an array has values of type " + std::to_string(type));
    const std::uint64_t size = kValueBytes[type];
    if (count > left() / (size > 0 ? size : type == kText ? kLeastText : kLeastArray))
      corrupt("an array of " + std::to_string(count) + " values does not fit into it");
    if (size > 0)
      take(count * size);
    else
      for (std::uint64_t i = 0; i < count; ++i) value(type, depth + 1);
    return std::to_string(count) + " values";
  }

  void tensor() {
    GgufTensor tensor;
    tensor.name = text();
    check_tensor_name(tensor.name, label_);
    const std::string what = "tensor " + printable(tensor.name);
    const auto dimensions = read<std::uint32_t>();
    if (dimensions > kMaxTensorRank)
      corrupt(what + " has " + std::to_string(dimensions) + " dimensions, at most " +
              std::to_string(kMaxTensorRank) + " are possible");
    for (std::uint32_t i = 0; i < dimensions; ++i) {
      const auto side = read<std::uint64_t>();
      if (side > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        corrupt(what + " has a negative size");
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(side));
    }
    tensor.type = read<std::uint32_t>();
    tensor.offset = read<std::uint64_t>();
    if (const Type* type = find_type(tensor.type)) tensor.size = size_of(tensor, *type, what);
    model_.tensors.push_back(std::move(tensor));
  }

  std::uint64_t size_of(const GgufTensor& tensor, const Type& type, const std::string& what) const {
    const std::string size = label_ + ": " + what + ": its size";
    const std::int64_t row = tensor.shape.empty() ? 1 : tensor.shape.back();
    if (row % type.elements != 0)
      corrupt(what + " has rows of " + std::to_string(row) + " elements, and a block of " +
              std::string(type.name) + " has " + std::to_string(type.elements));
    const std::int64_t elements = checked_elements(tensor.shape, size.c_str());
    return static_cast<std::uint64_t>(
        checked_mul(elements / type.elements, type.bytes, size.c_str()));
  }

  /// Offsets count from the first multiple of the alignment behind the list.
  void place() {
    const std::uint64_t alignment = model_.alignment;
    const std::uint64_t start = (at_ + alignment - 1) / alignment * alignment;
    const std::uint64_t room = bytes_.size() > start ? bytes_.size() - start : 0;
    for (GgufTensor& tensor : model_.tensors) {
      const std::string what = "tensor " + printable(tensor.name);
      if (tensor.offset % alignment != 0)
        corrupt(what + " begins at byte " + std::to_string(tensor.offset) +
                ", which is no multiple of " + std::to_string(alignment));
      if (tensor.offset > room || tensor.size > room - tensor.offset)
        throw Error(Errc::kTruncated, label_ + " has " + std::to_string(room) +
                                          " bytes of tensors, and " + what + " lies behind them" +
                                          kAgain);
      tensor.offset += start;
    }
    std::stable_sort(model_.tensors.begin(), model_.tensors.end(),
                     [](const GgufTensor& a, const GgufTensor& b) {
                       return std::pair(a.offset, a.size) < std::pair(b.offset, b.size);
                     });
    // Of a file that ends before the alignment, tensors without bytes begin behind its end.
    bound(start + room);
  }

  /// @param end  of the room for tensors
  void bound(std::uint64_t end) {
    std::vector<GgufTensor>& tensors = model_.tensors;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const bool last = i + 1 == tensors.size();
      const std::uint64_t next = last ? end : tensors[i + 1].offset;
      if (!find_type(tensors[i].type)) tensors[i].size = next - tensors[i].offset;
      if (!last && tensors[i].offset + tensors[i].size > next)
        corrupt("tensors " + printable(tensors[i].name) + " and " + printable(tensors[i + 1].name) +
                " overlap");
    }
  }

  std::span<const std::byte> bytes_;
  const std::string& label_;
  std::size_t at_ = 0;
  GgufFile model_;
};

}  // namespace

GgufFile parse(std::span<const std::byte> bytes, const std::string& label) {
  return Parser(bytes, label).run();
}

}  // namespace gbcompress::gguf
