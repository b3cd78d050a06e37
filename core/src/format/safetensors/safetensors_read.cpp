#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "base/byte_reader.h"
#include "base/file.h"
#include "format/file_kind.h"
#include "format/safetensors/json_scan.h"
#include "format/safetensors/safetensors.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

struct Declared {
  std::string name;
  std::optional<DType> dtype = {};
  bool has_shape = false, has_offsets = false;
  std::vector<std::uint64_t> shape = {}, offsets = {};
};

/// Takes the header apart; whether the tensors fit the file is checked afterwards.
class HeaderHandler : public JsonHandler {
 public:
  explicit HeaderHandler(const std::string& label) : label_(label) {}
  std::vector<Declared> entries;
  std::map<std::string, std::string> metadata;

  void begin(JsonFrames frames, bool object) override {
    if (frames.empty()) {
      if (!object) fail("header is not a JSON object");
    } else if (frames.size() == 1) {
      if (!object) fail(where(frames) + " is not a JSON object");
      if (in_metadata(frames)) return;
      check_tensor_name(frames[0].key, label_);
      if (entries.size() == kMaxTensors)
        throw Error(Errc::kLimit, label_ + " has more than 1,000,000 tensors");
      entries.push_back({frames[0].key});
    } else if (frames.size() == 2 && !in_metadata(frames) && !object) {
      list_of(frames);
      (frames[1].key == "shape" ? entries.back().has_shape : entries.back().has_offsets) = true;
    } else {
      unexpected(frames);
    }
  }

  void end(JsonFrames frames) override {
    if (frames.size() != 2 || in_metadata(frames)) return;
    const Declared& entry = entries.back();
    if (!entry.dtype || !entry.has_shape || !entry.has_offsets)
      fail(where(frames) + " lacks " +
           (!entry.dtype       ? "dtype"
            : !entry.has_shape ? "shape"
                               : "data_offsets"));
    if (entry.offsets.size() != 2) fail(where(frames) + " needs two data_offsets");
  }

  void text(JsonFrames frames, std::string& value) override {
    if (frames.size() != 2) unexpected(frames);
    if (in_metadata(frames)) {
      metadata.emplace(frames[1].key, std::move(value));
      return;
    }
    if (frames[1].key != "dtype") unexpected(frames);
    entries.back().dtype = parse_dtype(value);
    if (!entries.back().dtype)
      throw Error(Errc::kUnsupported, label_ + ": " + where(frames) + " has the unknown dtype " +
                                          printable(value.substr(0, 32)));
  }

  void whole(JsonFrames frames, std::uint64_t value) override {
    if (frames.size() != 3) unexpected(frames);
    auto& list = list_of(frames);
    if (list.size() == kMaxTensorRank)
      throw Error(Errc::kLimit,
                  label_ + ": " + where(frames) + " has more than 8 numbers in " + frames[1].key);
    if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      throw Error(Errc::kLimit, label_ + ": " + where(frames) + " has a number in " +
                                    frames[1].key + " that is too large");
    list.push_back(value);
  }

  void other(JsonFrames frames) override { unexpected(frames); }

 private:
  static bool in_metadata(JsonFrames frames) { return frames[0].key == "__metadata__"; }
  static std::string where(JsonFrames frames) {
    return in_metadata(frames) ? "__metadata__" : "tensor " + printable(frames[0].key);
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(Errc::kCorrupt, label_ + ": " + what);
  }
  [[noreturn]] void unexpected(JsonFrames frames) const {
    if (frames.empty()) fail("header is not a JSON object");
    if (frames.size() == 1) fail(where(frames) + " is not a JSON object");
    if (in_metadata(frames)) fail("__metadata__ holds something that is not a string");
    const std::string& field = frames[1].key;
    if (field != "dtype" && field != "shape" && field != "data_offsets")
      throw Error(Errc::kUnsupported, label_ + ": " + where(frames) + " has the unknown field " +
                                          printable(field.substr(0, 64)));
    fail(where(frames) + (field == "dtype"
                              ? ": dtype is not a string"
                              : ": " + field + " is not a list of non-negative integers"));
  }
  std::vector<std::uint64_t>& list_of(JsonFrames frames) {
    if (frames[1].key == "shape") return entries.back().shape;
    if (frames[1].key == "data_offsets") return entries.back().offsets;
    unexpected(frames);
  }

  const std::string& label_;
};

/// The tensors must tile the data: in the order of their offsets each begins where another ended.
void check_coverage(std::vector<Declared>& entries, std::uint64_t data_bytes,
                    const std::string& label) {
  std::sort(entries.begin(), entries.end(),
            [](const Declared& a, const Declared& b) { return a.offsets < b.offsets; });
  std::uint64_t covered = 0;
  for (const Declared& entry : entries) {
    const std::uint64_t begin = entry.offsets[0];
    if (begin != covered)
      throw Error(Errc::kCorrupt,
                  label + ": tensor " + printable(entry.name) +
                      (begin < covered ? " overlaps another" : " leaves a hole before its data"));
    covered = entry.offsets[1];
  }
  if (covered != data_bytes)
    throw Error(Errc::kCorrupt, label + " has " + std::to_string(data_bytes - covered) +
                                    " bytes after its last tensor");
}

}  // namespace

SafetensorsFile SafetensorsFile::from_bytes(std::span<const std::byte> bytes,
                                            const std::string& label) {
  if (bytes.empty()) throw Error(Errc::kTruncated, label + " is empty, not a safetensors file");
  refuse_stand_in(bytes, label);
  ByteReader reader(bytes, label);
  const auto header_bytes = reader.read<std::uint64_t>();
  if (header_bytes > kMaxSafetensorsHeader)
    throw Error(Errc::kLimit, label + " declares a header of " + std::to_string(header_bytes) +
                                  " bytes, at most 100,000,000 are allowed; is it safetensors?");
  const auto header = reader.take(header_bytes);
  std::string_view text(reinterpret_cast<const char*>(header.data()), header.size());
  // Padding is spaces only, and nothing may come before the object.
  text = text.substr(0, text.find_last_not_of(' ') + 1);
  if (text.empty() || text.front() != '{' || text.back() != '}')
    throw Error(Errc::kCorrupt, label + " has a header that is not a JSON object");

  HeaderHandler handler(label);
  scan_json(text, label + ": header", 3, handler);
  const auto data = reader.take(reader.remaining());
  SafetensorsFile file;
  file.bytes_ = bytes;
  file.metadata_ = std::move(handler.metadata);
  for (const Declared& declared : handler.entries) {
    const std::string what = label + ": tensor " + printable(declared.name);
    const std::uint64_t begin = declared.offsets[0], end = declared.offsets[1];
    TensorEntry entry{
        declared.name, *declared.dtype, {declared.shape.begin(), declared.shape.end()}, {}};
    const std::int64_t size = tensor_bytes(entry.dtype, entry.shape, what);
    if (begin > end || end - begin != static_cast<std::uint64_t>(size))
      throw Error(Errc::kCorrupt, what + " needs " + std::to_string(size) +
                                      " bytes, but its data_offsets are " + std::to_string(begin) +
                                      " and " + std::to_string(end));
    if (end > data.size())
      throw Error(Errc::kTruncated, what + " ends at byte " + std::to_string(end) +
                                        " of the data, which has " + std::to_string(data.size()));
    entry.bytes = data.subspan(begin, end - begin);
    file.tensors_.push_back(std::move(entry));
  }
  check_coverage(handler.entries, data.size(), label);
  std::sort(file.tensors_.begin(), file.tensors_.end(),
            [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return file;
}

SafetensorsFile SafetensorsFile::open(const std::filesystem::path& path) {
  auto map = std::make_shared<const MappedFile>(path);
  SafetensorsFile file = from_bytes(map->bytes(), printable(path.string()));
  file.map_ = std::move(map);
  return file;
}

TensorBundle open_safetensors(const std::filesystem::path& path) {
  auto file = std::make_shared<const SafetensorsFile>(SafetensorsFile::open(path));
  TensorBundle bundle;
  bundle.tensors = file->tensors();
  bundle.metadata = file->metadata();
  bundle.contents.push_back(file->bytes());
  bundle.owners.push_back(std::move(file));
  return bundle;
}

}  // namespace gbcompress
