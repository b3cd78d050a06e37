#include "format/onnx/tensor_message.h"

#include <algorithm>
#include <charconv>

#include "base/checked.h"
#include "format/onnx/types.h"
#include "format/tensor_bundle.h"

namespace gbcompress::onnx {
namespace {

/// Fields of TensorProto that hold elements.
enum DataField : std::uint32_t {
  kNoData = 0,
  kFloatData = 4,
  kInt32Data = 5,
  kStringData = 6,
  kInt64Data = 7,
  kRawData = 9,
  kDoubleData = 10,
  kUint64Data = 11
};

bool holds_elements(std::uint32_t field) {
  return (field >= kFloatData && field <= kInt64Data) ||
         (field >= kRawData && field <= kUint64Data);
}

class TensorMessage {
 public:
  TensorMessage(const Proto& proto, Range message, std::string_view owner) : proto_(proto) {
    tensor_.own_name = owner;
    bool outside = false;
    External external;
    proto.for_fields(message, [&](const Field& field) {
      if (field.number == 1) read_wholes(proto, field, kMaxTensorRank + 1, tensor_.shape);
      if (field.number == 2 && field.is_varint())
        tensor_.type = static_cast<int>(std::min<std::uint64_t>(field.value, 1 << 30));
      if (field.number == 8 && field.is_bytes() && owner.empty())
        tensor_.own_name = proto.text(field.bytes);
      if (field.number == 13 && field.is_bytes()) read_external(field.bytes, external);
      if (field.number == 14 && field.is_varint()) outside = field.value == 1;
      if (field.number == 3) in_pieces_ = true;  // a segment of a larger tensor
      if (holds_elements(field.number)) read_data(field);
    });
    if (!outside) return;
    if (external.location.empty())
      corrupt(proto.label() + ": tensor " + shown_name(tensor_.own_name) +
              " names no file of its data");
    tensor_.external = external;
  }

  /// Where the elements are, if they are in one piece, and whether they fit the shape.
  Tensor placed(std::span<const std::uint64_t> frames) {
    const int bits = type_bits(tensor_.type);
    if (bits > 0 && !in_pieces_ && tensor_.shape.size() <= kMaxTensorRank) place(bits, frames);
    return std::move(tensor_);
  }

  Tensor kept() { return std::move(tensor_); }

 private:
  [[noreturn]] static void corrupt(const std::string& what) { throw Error(Errc::kCorrupt, what); }

  void read_external(Range message, External& into) const {
    std::string_view key, value;
    proto_.for_fields(message, [&](const Field& field) {
      if (field.number == 1 && field.is_bytes()) key = proto_.text(field.bytes);
      if (field.number == 2 && field.is_bytes()) value = proto_.text(field.bytes);
    });
    if (key == "location") into.location = value;
    if (key == "offset") into.offset = decimal(value, "offset");
    // 0 is what some exporters write where the shape says it.
    if (key == "length")
      if (const std::uint64_t length = decimal(value, "length"); length > 0) into.length = length;
  }

  std::uint64_t decimal(std::string_view text, const char* what) const {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      corrupt(proto_.label() + ": the " + what +
              " of external data is no number: " + shown_name(text));
    return value;
  }

  void read_data(const Field& field) {
    ++data_fields_;
    if (!field.is_bytes()) {
      in_pieces_ = true;
      return;
    }
    data_field_ = field.number;
    data_ = field.bytes;
  }

  void place(int bits, std::span<const std::uint64_t> frames) {
    const std::string what = proto_.label() + ": tensor " + shown_name(tensor_.own_name);
    if (std::any_of(tensor_.shape.begin(), tensor_.shape.end(),
                    [](std::int64_t side) { return side < 0; }))
      corrupt(what + " has a negative side");
    const std::string size = what + ": its size";
    const std::int64_t elements = checked_elements(tensor_.shape, size.c_str());
    const std::int64_t bytes =
        checked_add(checked_mul(elements, bits, size.c_str()), 7, size.c_str()) / 8;
    const auto wanted = static_cast<std::uint64_t>(bytes);
    if (tensor_.external) {
      if (tensor_.external->length.value_or(wanted) != wanted)
        misfit(what, *tensor_.external->length, bytes);
      tensor_.external->length = wanted;
      tensor_.external->whole = true;
      return;
    }
    if (data_fields_ > 1) return;
    const bool whole =
        data_field_ == kRawData || data_field_ == kFloatData || data_field_ == kDoubleData;
    if (data_field_ == kNoData ? bytes > 0 : whole && data_.size != wanted)
      misfit(what, data_.size, bytes);
    if (data_field_ == kNoData || data_field_ == kStringData) return;
    tensor_.payload = data_;
    if (!whole) check_varints(elements, bits, frames, what);
  }

  void check_varints(std::int64_t elements, int bits, std::span<const std::uint64_t> frames,
                     const std::string& what) {
    const auto bytes = proto_.bytes(data_);
    const auto ends = std::count_if(bytes.begin(), bytes.end(), [](std::byte byte) {
      return (byte & std::byte{0x80}) == std::byte{0};
    });
    const std::int64_t in_byte = bits < 8 ? 8 / bits : 1;
    const std::int64_t wanted = elements / in_byte + (elements % in_byte > 0 ? 1 : 0);
    if (ends != wanted)
      corrupt(what + " has " + std::to_string(ends) + " values, and its shape requires " +
              std::to_string(wanted));
    tensor_.encoding = PayloadEncoding::kVarint;
    tensor_.frames.assign(frames.begin(), frames.end());
    tensor_.frames.push_back(proto_.length_position(data_));
  }

  [[noreturn]] static void misfit(const std::string& what, std::uint64_t has, std::int64_t wanted) {
    corrupt(what + " has " + std::to_string(has) + " bytes, and its shape requires " +
            std::to_string(wanted));
  }

  const Proto& proto_;
  Tensor tensor_;
  Range data_;
  std::uint32_t data_field_ = kNoData;
  std::size_t data_fields_ = 0;
  bool in_pieces_ = false;
};

/// A field of a message that may hold tensors.
struct Inner {
  Kept in;
  std::uint32_t field;
  Kept what;
};
constexpr Inner kInner[] = {
    {Kept::kTraining, 1, Kept::kGraph},    {Kept::kTraining, 2, Kept::kGraph},
    {Kept::kGraph, 1, Kept::kNode},        {Kept::kGraph, 5, Kept::kTensor},
    {Kept::kGraph, 15, Kept::kSparse},     {Kept::kNode, 5, Kept::kAttribute},
    {Kept::kAttribute, 5, Kept::kTensor},  {Kept::kAttribute, 6, Kept::kGraph},
    {Kept::kAttribute, 10, Kept::kTensor}, {Kept::kAttribute, 11, Kept::kGraph},
    {Kept::kAttribute, 22, Kept::kSparse}, {Kept::kAttribute, 23, Kept::kSparse},
    {Kept::kSparse, 1, Kept::kTensor},     {Kept::kSparse, 2, Kept::kTensor}};

void find_kept(const Proto& proto, Kept kind, Range message, std::vector<Tensor>& into,
               std::size_t depth) {
  if (kind == Kept::kTensor) {
    Tensor tensor = TensorMessage(proto, message, {}).kept();
    if (!tensor.external) return;
    check_count(proto, into.size());
    into.push_back(std::move(tensor));
    return;
  }
  // A graph in a graph is three messages deeper.
  if (depth > 3 * kMaxDepth) refuse_depth(proto);
  proto.for_fields(message, [&](const Field& field) {
    if (!field.is_bytes()) return;
    for (const Inner& inner : kInner)
      if (inner.in == kind && inner.field == field.number)
        find_kept(proto, inner.what, field.bytes, into, depth + 1);
  });
}

}  // namespace

void refuse_depth(const Proto& proto) {
  throw Error(Errc::kLimit, proto.label() + " has graphs inside of graphs, more than " +
                                std::to_string(kMaxDepth) + " deep");
}

void check_count(const Proto& proto, std::size_t tensors) {
  if (tensors >= kMaxTensors)
    throw Error(Errc::kLimit, proto.label() + " has more than 1,000,000 tensors");
}

void read_wholes(const Proto& proto, const Field& field, std::size_t most,
                 std::vector<std::int64_t>& into) {
  if (field.is_varint() && into.size() < most) into.push_back(field.whole());
  if (!field.is_bytes()) return;
  const std::string_view text = proto.text(field.bytes);
  const char* at = text.data();
  const char* const end = at + text.size();
  try {
    while (at != end && into.size() < most)
      into.push_back(static_cast<std::int64_t>(protozero::decode_varint(&at, end)));
  } catch (const protozero::exception&) {
    throw Error(Errc::kCorrupt,
                proto.label() + ": a list of numbers ends inside of one; the file is damaged");
  }
}

Tensor read_tensor(const Proto& proto, Range message, std::string_view owner,
                   std::span<const std::uint64_t> frames) {
  return TensorMessage(proto, message, owner).placed(frames);
}

void find_kept(const Proto& proto, Kept kind, Range message, std::vector<Tensor>& into) {
  find_kept(proto, kind, message, into, 0);
}

}  // namespace gbcompress::onnx
