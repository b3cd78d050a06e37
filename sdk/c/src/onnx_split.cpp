// An ONNX model without the elements of its large initializers, which sessions get as memory.
#include <cstring>
#include <protozero/varint.hpp>

#include "gbcompress/error.h"
#include "onnx.h"

using gbcompress::ContainerFile;
using gbcompress::Errc;
using gbcompress::Error;
using gbcompress::Hole;
using gbcompress::PayloadEncoding;

namespace gbz {
namespace {

// Fields of messages: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
constexpr std::uint64_t kGraph = 7, kInitializer = 5;
constexpr std::uint64_t kDims = 1, kDataType = 2, kName = 8, kExternalData = 13, kDataLocation = 14;
constexpr unsigned kLengthWire = 2;

/// float_data, int32_data, int64_data, raw_data, double_data, uint64_data.
bool holds_elements(std::uint64_t field) {
  return field == 4 || field == 5 || field == 7 || (field >= 9 && field <= 11);
}

/// Bytes of an element by TensorProto.DataType; 0 for types that stay in the model.
unsigned element_bytes(std::uint64_t type) {
  static constexpr unsigned char kBytes[] = {0, 4, 1, 1, 2,  2, 4, 8, 0, 1, 2,
                                             8, 4, 8, 8, 16, 2, 1, 1, 1, 1};
  return type < sizeof kBytes ? kBytes[type] : 0;
}

[[noreturn]] void refuse(const char* what) {
  throw Error(Errc::kCorrupt, std::string("the container of the model is damaged: ") + what +
                                  "; get the file again");
}

/// A field of a message in a skeleton. Places are those of the skeleton.
struct Field {
  std::uint64_t number = 0;
  unsigned wire = 0;
  std::size_t key = 0, length = 0;  ///< of the field, and of the length of its content
  std::size_t begin = 0, end = 0;   ///< of its content
  std::uint64_t value = 0;          ///< the number, or how long the content is with its elements
  std::optional<std::size_t> hole;  ///< that is all of the content
};

/// A skeleton read as messages whose holes are filled.
class Messages {
 public:
  Messages(const ContainerFile& file, std::span<const std::uint64_t> sizes)
      : data_(reinterpret_cast<const char*>(file.skeleton.data())),
        size_(file.skeleton.size()),
        sizes_(sizes) {
    std::uint64_t at = 0;
    for (const Hole& hole : file.holes) {
      if (hole.before > size_ - at) refuse("a hole lies behind the end of its file");
      places_.push_back(at += hole.before);
    }
  }

  std::size_t place(std::size_t hole) const { return places_[hole]; }
  std::size_t size() const { return size_; }
  std::string text(const Field& field) const {
    return {data_ + field.begin, field.end - field.begin};
  }

  std::uint64_t number(std::size_t& at, std::size_t end) const {
    const char* from = data_ + at;
    const std::uint64_t value = protozero::decode_varint(&from, data_ + end);
    at = static_cast<std::size_t>(from - data_);
    return value;
  }

  /// The field that begins there, of a message that ends there.
  Field field(std::size_t at, std::size_t end) const {
    Field field{.key = at};
    const std::uint64_t key = number(at, end);
    field.number = key >> 3;
    field.wire = key & 7;
    field.length = at;
    if (field.wire == 0 || field.wire == kLengthWire) field.value = number(at, end);
    field.begin = field.end = at;
    if (field.wire == kLengthWire) find_end(field);
    if (field.wire == 1) field.end += 8;
    if (field.wire == 5) field.end += 4;
    const bool known = field.wire <= kLengthWire || field.wire == 5;
    const std::size_t next = first_hole(field.key + 1);
    if (!known || field.end > end || (next < places_.size() && places_[next] < field.begin))
      refuse("a field of a message ends too early");
    return field;
  }
  template <typename Body>
  void each(std::size_t at, std::size_t end, const Body& body) const {
    while (at < end) {
      const Field found = field(at, end);
      body(found);
      at = found.end;
    }
  }

 private:
  /// The first hole at or behind a place.
  std::size_t first_hole(std::size_t place) const {
    return static_cast<std::size_t>(std::lower_bound(places_.begin(), places_.end(), place) -
                                    places_.begin());
  }
  void find_end(Field& field) const {
    std::size_t hole = first_hole(field.begin);
    if (hole < places_.size() && places_[hole] == field.begin && sizes_[hole] == field.value) {
      field.hole = hole;
      return;
    }
    std::uint64_t left = field.value;
    std::size_t at = field.begin;
    for (; hole < places_.size() && left > places_[hole] - at; ++hole) {
      left -= places_[hole] - at;
      at = places_[hole];
      if (left < sizes_[hole]) refuse("a message ends within the elements of a tensor");
      left -= sizes_[hole];
    }
    if (left > size_ - at) refuse("a message ends behind its file");
    field.end = at + left;
  }

  const char* data_;
  std::size_t size_;
  std::span<const std::uint64_t> sizes_;
  std::vector<std::size_t> places_;
};

void append_varint(std::string& to, std::uint64_t value) {
  std::array<char, protozero::max_varint_length> bytes{};
  to.append(bytes.data(), static_cast<std::size_t>(protozero::write_varint(bytes.data(), value)));
}
void append_text(std::string& to, std::uint64_t field, std::string_view text) {
  append_varint(to, field << 3 | kLengthWire);
  append_varint(to, text.size());
  to += text;
}
std::string varint(std::uint64_t value) {
  std::string result;
  append_varint(result, value);
  return result;
}

/// Bytes in place of a part of a skeleton.
struct Edit {
  std::size_t from, to;
  std::string bytes;
};

/// What is found of a model, then the model without it.
class Splitter {
 public:
  Splitter(const gbz_file& file, std::uint64_t least)
      : file_(file),
        model_(file.model->container.files.front()),
        sizes_(file.model->sizes),
        messages_(model_, sizes_),
        out_(model_.holes.size()),
        least_(std::max<std::uint64_t>(least, 1)) {}

  Split split() {
    messages_.each(0, messages_.size(), [&](const Field& field) {
      if (field.number == kGraph && field.wire == kLengthWire && !field.hole) read_graph(field);
    });
    write();
    for (Initializer& each : split_.initializers)
      each.told = {.name = each.name.c_str(),
                   .location = each.location.c_str(),
                   .shape = each.shape.data(),
                   .rank = each.shape.size(),
                   .bytes = each.told.bytes,
                   .type = each.told.type};
    return std::move(split_);
  }

 private:
  void read_graph(const Field& graph) {
    const std::size_t place = edits_.size();
    edits_.push_back({graph.length, graph.begin, {}});
    std::uint64_t length = graph.value;  // grows and shrinks modulo 2^64
    messages_.each(graph.begin, graph.end, [&](const Field& field) {
      if (field.number == kInitializer && field.wire == kLengthWire && !field.hole)
        length += read_initializer(field);
    });
    edits_[place].bytes = varint(length);
  }

  /// @return by how much longer the graph is without its elements, modulo 2^64
  std::uint64_t read_initializer(const Field& field) {
    Initializer found;
    std::optional<Field> elements;
    bool simple = true;  // elements in one hole, and nothing that this version does not know
    std::uint64_t type = 0;
    messages_.each(field.begin, field.end, [&](const Field& part) {
      if (part.hole) {
        simple &= !elements && holds_elements(part.number);
        elements = part;
      } else if (part.number == kDims) {
        read_sides(part, found.shape);
      } else if (part.number == kDataType) {
        type = part.value;
      } else if (part.number == kName && part.wire == kLengthWire) {
        found.name = messages_.text(part);
      } else if (part.number == kDataLocation || part.number == kExternalData) {
        simple = false;
      }
    });
    if (!simple || !elements || !takes_out(found, type, *elements->hole)) return 0;
    return take_out(field, *elements, std::move(found));
  }

  void read_sides(const Field& part, std::vector<std::int64_t>& shape) const {
    if (part.wire == 0) shape.push_back(static_cast<std::int64_t>(part.value));
    if (part.wire != kLengthWire) return;
    for (std::size_t at = part.begin; at < part.end;)
      shape.push_back(static_cast<std::int64_t>(messages_.number(at, part.end)));
  }

  /// Fills in what is told of it.
  bool takes_out(Initializer& found, std::uint64_t type, std::size_t hole) const {
    const Hole& at = model_.holes[hole];
    std::uint64_t bytes = sizes_[hole];
    if (at.encoding == PayloadEncoding::kVarint)
      bytes = gbz_bytes(&file_, at.tensor, gbz_type(&file_, at.tensor));
    std::uint64_t expected = element_bytes(type);
    for (const std::int64_t side : found.shape)
      if (side < 0 || __builtin_mul_overflow(expected, std::uint64_t(side), &expected))
        return false;
    found.hole = hole;
    found.told.bytes = bytes;
    found.told.type = static_cast<std::int32_t>(type);
    return at.encoding != PayloadEncoding::kQ8_0 && bytes >= least_ && bytes == expected &&
           !found.name.empty() && found.name.find('\0') == std::string::npos;
  }

  std::uint64_t take_out(const Field& field, const Field& elements, Initializer found) {
    found.location = "gbcompress-" + std::to_string(split_.initializers.size());
    std::string entry, place;
    append_text(entry, 1, "location");
    append_text(entry, 2, found.location);
    append_text(place, kExternalData, entry);
    entry.clear();
    append_text(entry, 1, "length");
    append_text(entry, 2, std::to_string(found.told.bytes));
    append_text(place, kExternalData, entry);
    append_varint(place, kDataLocation << 3);
    append_varint(place, 1);  // EXTERNAL
    const std::uint64_t old = elements.begin - elements.key + sizes_[*elements.hole];
    const std::uint64_t length = field.value - old + place.size();
    edits_.push_back({field.length, field.begin, varint(length)});
    const std::uint64_t more =
        length - field.value + edits_.back().bytes.size() - (field.begin - field.length);
    edits_.push_back({elements.key, elements.begin, std::move(place)});
    out_[*elements.hole] = true;
    split_.initializers.push_back(std::move(found));
    return more;
  }

  /// The skeleton up to that place, edited.
  void copy_to(std::size_t end) {
    const auto copy = [&](std::size_t to) {
      const auto from = model_.skeleton.begin();
      split_.graph.skeleton.insert(split_.graph.skeleton.end(),
                                   from + static_cast<std::ptrdiff_t>(at_),
                                   from + static_cast<std::ptrdiff_t>(to));
    };
    for (; edit_ < edits_.size() && edits_[edit_].from < end; ++edit_) {
      const Edit& edit = edits_[edit_];
      copy(edit.from);
      const auto* bytes = reinterpret_cast<const std::byte*>(edit.bytes.data());
      split_.graph.skeleton.insert(split_.graph.skeleton.end(), bytes, bytes + edit.bytes.size());
      at_ = edit.to;
    }
    copy(end);
    at_ = end;
  }

  void write() {
    split_.graph.skeleton.reserve(model_.skeleton.size());
    std::size_t last = 0;
    for (std::size_t i = 0; i < model_.holes.size(); ++i) {
      copy_to(messages_.place(i));
      if (out_[i]) continue;
      split_.graph.holes.push_back(model_.holes[i]);
      split_.graph.holes.back().before = split_.graph.skeleton.size() - last;
      last = split_.graph.skeleton.size();
      split_.bytes += sizes_[i];
    }
    copy_to(messages_.size());
    split_.bytes += split_.graph.skeleton.size();
  }

  const gbz_file& file_;
  const ContainerFile& model_;
  const std::vector<std::uint64_t>& sizes_;
  Messages messages_;
  std::vector<bool> out_;  ///< whether the hole's elements lie outside
  std::uint64_t least_;
  std::vector<Edit> edits_;
  std::size_t at_ = 0, edit_ = 0;
  Split split_;
};

const Split* split_of(const gbz_file* file) {
  return file && file->model && file->model->split ? &*file->model->split : nullptr;
}

gbz_status misuse(gbz_error* error, const char* text) {
  set_error(error, GBZ_USAGE, text);
  return GBZ_USAGE;
}

/// A status whose sentence begins with a name, where both have space.
gbz_status of(std::string_view name, gbz_status status, gbz_error* error) {
  if (!error || !spoils(status)) return status;
  const std::size_t more = name.size() + 2, size = std::strlen(error->text) + 1;
  if (more + size > sizeof error->text) return status;
  std::memmove(error->text + more, error->text, size);
  std::memcpy(error->text, name.data(), name.size());
  std::memcpy(error->text + name.size(), ": ", 2);
  return status;
}

}  // namespace
}  // namespace gbz

extern "C" {

gbz_status gbz_onnx_split(gbz_file* file, uint64_t least, size_t* count, uint64_t* bytes,
                          gbz_error* error) {
  if (count) *count = 0;
  if (bytes) *bytes = 0;
  if (!file || !count || !bytes) return gbz::misuse(error, "`file`, `count` or `bytes` is NULL");
  gbz_status status = gbz::find_model(*file, error);
  if (status != GBZ_OK) return status;
  if (!file->model)
    return gbz::misuse(error, "the file was not made of an ONNX model; read its tensors");
  status = gbz::set(*file, error, [&] {
    gbz::check_unspoiled(*file);
    file->model->split.reset();
    file->model->split = gbz::Splitter(*file, least).split();
  });
  file->spoiled |= gbz::spoils(status);
  if (status != GBZ_OK) return status;
  *count = file->model->split->initializers.size();
  *bytes = file->model->split->bytes;
  return GBZ_OK;
}

gbz_status gbz_onnx_graph(gbz_file* file, void* out, size_t bytes, gbz_error* error) {
  const gbz::Split* split = gbz::split_of(file);
  if (!split || !out || bytes != split->bytes)
    return gbz::misuse(error, split ? "`out` needs the bytes that gbz_onnx_split() gives"
                                    : "call gbz_onnx_split() first");
  const gbz_status status = gbz::use(*file, error, [&] {
    gbz::write_model(*file, split->graph, {static_cast<std::byte*>(out), bytes});
  });
  return gbz::of("the graph", status, error);
}

const gbz_initializer* gbz_onnx_initializer(const gbz_file* file, size_t index) {
  const gbz::Split* split = gbz::split_of(file);
  return split && index < split->initializers.size() ? &split->initializers[index].told : nullptr;
}

gbz_status gbz_onnx_read(gbz_file* file, size_t index, void* out, size_t bytes, gbz_error* error) {
  const gbz_initializer* told = gbz_onnx_initializer(file, index);
  if (!told || !out || bytes != told->bytes)
    return gbz::misuse(error, told ? "`out` needs the bytes of the initializer"
                                   : "gbz_onnx_split() did not take out so many initializers");
  const gbz::Initializer& found = file->model->split->initializers[index];
  const Hole& hole = file->model->container.files.front().holes[found.hole];
  const gbz_status status =
      hole.encoding != PayloadEncoding::kAffine
          ? gbz_read(file, hole.tensor, gbz_type(file, hole.tensor), out, bytes, error)
          : gbz::use(*file, error, [&] {
              const auto filling = gbz::filling_of(*file, hole);
              std::copy(filling.begin(), filling.end(), static_cast<std::byte*>(out));
            });
  return gbz::of(found.name, status, error);
}

}  // extern "C"
