#include <zlib.h>

#include <string>
#include <string_view>
#include <vector>

#include "base/byte_reader.h"
#include "format/npz.h"
#include "format/safetensors/safetensors_order.h"
#include "format/tensor_bundle.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// NumPy's name of an element type, or "" where it has none.
std::string_view descr_of(DType dtype) noexcept {
  switch (dtype) {
    case DType::kBool:
      return "|b1";
    case DType::kU8:
      return "|u1";
    case DType::kI8:
      return "|i1";
    case DType::kU16:
      return "<u2";
    case DType::kI16:
      return "<i2";
    case DType::kU32:
      return "<u4";
    case DType::kI32:
      return "<i4";
    case DType::kU64:
      return "<u8";
    case DType::kI64:
      return "<i8";
    case DType::kF16:
      return "<f2";
    case DType::kF32:
      return "<f4";
    case DType::kF64:
      return "<f8";
    case DType::kC64:
      return "<c8";
    default:
      return {};
  }
}

/// What stands before the elements in a `.npy`: a multiple of 64 bytes.
std::string npy_head(const TensorEntry& tensor) {
  std::string shape;
  for (const std::int64_t side : tensor.shape) shape += std::to_string(side) + ", ";
  // (), (3,) and (3, 4) as Python writes them.
  if (tensor.shape.size() == 1)
    shape.pop_back();
  else if (!shape.empty())
    shape.resize(shape.size() - 2);
  std::string text = "{'descr': '" + std::string(descr_of(tensor.dtype)) +
                     "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr std::size_t kBefore = 10, kMultiple = 64;
  text.append(kMultiple - 1 - (kBefore + text.size()) % kMultiple, ' ');
  text += '\n';
  std::string head = "\x93NUMPY";
  head +=
      {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return head + text;
}

// The zip format (APPNOTE.TXT): sizes and offsets that do not fit 32 bits stand in an extra field.

constexpr std::uint32_t kIn64 = 0xffffffff;
constexpr std::uint16_t kVersion = 45, kUtf8 = 0x800, kExtra64 = 1, kFirstOfJanuary1980 = 0x21;

struct Member {
  std::string name;
  std::uint32_t crc = 0;
  std::uint64_t bytes = 0, offset = 0;
};

class Record {
 public:
  template <typename Number>
  Record& add(Number value) {
    append_number(bytes_, value);
    return *this;
  }
  Record& add_text(std::string_view text) {
    const auto from = std::as_bytes(std::span(text));
    bytes_.insert(bytes_.end(), from.begin(), from.end());
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

/// Fields that a member's own header and its entry in the directory share, up to the length of the
/// name.
void add_common(Record& record, const Member& member) {
  const auto size = static_cast<std::uint32_t>(std::min<std::uint64_t>(member.bytes, kIn64));
  record.add(kVersion).add(kUtf8).add(std::uint16_t{0}).add(std::uint16_t{0});
  record.add(kFirstOfJanuary1980).add(member.crc).add(size).add(size);
  record.add(static_cast<std::uint16_t>(member.name.size()));
}

std::vector<std::byte> own_header(const Member& member) {
  Record record;
  record.add(std::uint32_t{0x04034b50});
  add_common(record, member);
  const bool large = member.bytes >= kIn64;
  record.add(static_cast<std::uint16_t>(large ? 20 : 0)).add_text(member.name);
  if (large) record.add(kExtra64).add(std::uint16_t{16}).add(member.bytes).add(member.bytes);
  return {record.bytes().begin(), record.bytes().end()};
}

void add_entry(Record& record, const Member& member) {
  Record extra;
  if (member.bytes >= kIn64) extra.add(member.bytes).add(member.bytes);
  if (member.offset >= kIn64) extra.add(member.offset);
  const auto length = static_cast<std::uint16_t>(extra.bytes().size());
  record.add(std::uint32_t{0x02014b50}).add(kVersion);
  add_common(record, member);
  record.add(static_cast<std::uint16_t>(length == 0 ? 0 : length + 4));
  record.add(std::uint16_t{0}).add(std::uint16_t{0}).add(std::uint16_t{0}).add(std::uint32_t{0});
  record.add(static_cast<std::uint32_t>(std::min<std::uint64_t>(member.offset, kIn64)));
  record.add_text(member.name);
  if (length == 0) return;
  record.add(kExtra64).add(length);
  for (const std::byte byte : extra.bytes()) record.add(byte);
}

std::vector<std::byte> directory(const std::vector<Member>& members, std::uint64_t offset) {
  Record record;
  for (const Member& member : members) add_entry(record, member);
  const std::uint64_t bytes = record.bytes().size(), count = members.size();
  const bool large = offset + bytes >= kIn64 || count >= 0xffff;
  if (large) {
    record.add(std::uint32_t{0x06064b50}).add(std::uint64_t{44}).add(kVersion).add(kVersion);
    record.add(std::uint32_t{0}).add(std::uint32_t{0}).add(count).add(count);
    record.add(bytes).add(offset);
    record.add(std::uint32_t{0x07064b50}).add(std::uint32_t{0}).add(offset + bytes);
    record.add(std::uint32_t{1});
  }
  const auto entries = static_cast<std::uint16_t>(std::min<std::uint64_t>(count, 0xffff));
  record.add(std::uint32_t{0x06054b50}).add(std::uint16_t{0}).add(std::uint16_t{0});
  record.add(entries).add(entries);
  record.add(static_cast<std::uint32_t>(large ? kIn64 : bytes));
  record.add(static_cast<std::uint32_t>(large ? kIn64 : offset)).add(std::uint16_t{0});
  return {record.bytes().begin(), record.bytes().end()};
}

std::uint32_t checksum(std::uint32_t before, std::span<const std::byte> bytes) {
  if (bytes.empty()) return before;  // zlib takes no bytes at no address for a new beginning
  return static_cast<std::uint32_t>(
      ::crc32_z(before, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

}  // namespace

std::int64_t write_npz(const std::filesystem::path& path, std::span<const TensorEntry> tensors,
                       bool overwrite,
                       const std::function<std::span<const std::byte>(std::size_t)>& source) {
  const std::string label = printable(path.string());
  for (const TensorEntry& tensor : tensors) {
    check_tensor_name(tensor.name, label);
    if (descr_of(tensor.dtype).empty())
      throw Error(Errc::kUsage, label + ": NumPy has no type for " + printable(tensor.name) + ", " +
                                    std::string(dtype_name(tensor.dtype)) +
                                    "; name a .safetensors file");
  }
  AtomicFile file(path, overwrite);
  std::uint64_t written = 0;
  const auto write = [&](std::span<const std::byte> bytes) {
    file.write(bytes);
    written += bytes.size();
  };
  std::vector<Member> members;
  for (const std::size_t i : file_order(tensors)) {
    const std::string head = npy_head(tensors[i]);
    const auto head_bytes = std::as_bytes(std::span(head));
    const auto bytes = source(i);
    const std::int64_t wanted = tensor_bytes(tensors[i].dtype, tensors[i].shape, label);
    if (bytes.size() != static_cast<std::uint64_t>(wanted))
      throw Error(Errc::kShapeMismatch, label + ": tensor " + printable(tensors[i].name) +
                                            " needs " + std::to_string(wanted) + " bytes, " +
                                            std::to_string(bytes.size()) + " were given");
    members.push_back({tensors[i].name + ".npy", checksum(checksum(0, head_bytes), bytes),
                       head_bytes.size() + bytes.size(), written});
    write(own_header(members.back()));
    write(head_bytes);
    write(bytes);
  }
  write(directory(members, written));
  file.commit();
  return static_cast<std::int64_t>(written);
}

}  // namespace gbcompress
