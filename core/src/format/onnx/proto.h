#pragma once
/// Protocol buffers as ranges of a file's bytes: what a payload is can be told before it is copied,
/// and everything else stays where it is, fields that this program does not know too.

#include <cstddef>
#include <cstdint>
#include <protozero/pbf_reader.hpp>
#include <span>
#include <string>
#include <string_view>

#include "gbcompress/error.h"

namespace gbcompress::onnx {

/// Bytes [offset, offset + size) of a file.
struct Range {
  std::uint64_t offset = 0, size = 0;
  std::uint64_t end() const noexcept { return offset + size; }
  bool operator==(const Range&) const = default;
};

struct Field {
  std::uint32_t number = 0;
  protozero::pbf_wire_type type = protozero::pbf_wire_type::unknown;
  std::uint64_t value = 0;  ///< of varints, and of fixed widths as unsigned numbers
  Range bytes;              ///< of length-delimited fields

  bool is_varint() const noexcept { return type == protozero::pbf_wire_type::varint; }
  bool is_bytes() const noexcept { return type == protozero::pbf_wire_type::length_delimited; }
  std::int64_t whole() const noexcept { return static_cast<std::int64_t>(value); }
};

class Proto {
 public:
  Proto(std::span<const std::byte> bytes, std::string label)
      : bytes_(bytes), label_(std::move(label)) {}

  const std::string& label() const noexcept { return label_; }
  std::span<const std::byte> bytes(Range range) const {
    return bytes_.subspan(range.offset, range.size);
  }
  std::string_view text(Range range) const {
    return {reinterpret_cast<const char*>(bytes_.data()) + range.offset, range.size};
  }
  Range all() const noexcept { return {0, bytes_.size()}; }

  /// Calls visit(field) for the fields of a message in their order.
  /// @throws Error(kCorrupt) for bytes that are no message; what visit() throws
  template <typename Visit>
  void for_fields(Range message, Visit visit) const {
    const std::string_view content = text(message);
    protozero::pbf_reader reader(content.data(), content.size());
    while (true) {
      Field field;
      try {
        if (!reader.next()) return;
        field = read(reader);
      } catch (const protozero::exception&) {
        throw Error(Errc::kCorrupt, label_ + " is damaged: a message of bytes " +
                                        std::to_string(message.offset) + " to " +
                                        std::to_string(message.end()) +
                                        " does not end where it should; load the file again");
      }
      visit(field);
    }
  }

  /// Where the number stands that says how many bytes a length-delimited field has.
  std::uint64_t length_position(Range field) const noexcept {
    std::uint64_t at = field.offset - 1;
    // The field's tag ends in a byte without the highest bit, as every varint does.
    while (at > 0 && (bytes_[at - 1] & std::byte{0x80}) != std::byte{0}) --at;
    return at;
  }

 private:
  Field read(protozero::pbf_reader& reader) const {
    Field field{reader.tag(), reader.wire_type(), 0, {}};
    switch (field.type) {
      case protozero::pbf_wire_type::varint:
        field.value = reader.get_uint64();
        break;
      case protozero::pbf_wire_type::fixed64:
        field.value = reader.get_fixed64();
        break;
      case protozero::pbf_wire_type::fixed32:
        field.value = reader.get_fixed32();
        break;
      default: {
        const protozero::data_view view = reader.get_view();
        const auto* first = reinterpret_cast<const char*>(bytes_.data());
        field.bytes = {static_cast<std::uint64_t>(view.data() - first), view.size()};
      }
    }
    return field;
  }

  std::span<const std::byte> bytes_;
  std::string label_;
};

}  // namespace gbcompress::onnx
