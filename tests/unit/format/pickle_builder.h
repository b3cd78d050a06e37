#pragma once
/// Pickle programs in the words that torch.save uses.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "zip_builder.h"

namespace gbcompress::testing::pickle {

inline std::string text(const std::string& value) {
  return "X" + le(static_cast<std::uint32_t>(value.size())) + value;
}
inline std::string number(std::int64_t value) { return "\x8a\x08" + le(value); }
inline std::string tuple(const std::vector<std::int64_t>& values) {
  std::string program = "(";
  for (const auto value : values) program += number(value);
  return program + "t";
}
inline std::string global(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string ordered_dict() { return global("collections", "OrderedDict") + ")R"; }
inline std::string storage(const std::string& module, const std::string& type,
                           const std::string& key, std::int64_t elements) {
  return "(" + text("storage") + global(module, type) + text(key) + text("cpu") + number(elements) +
         "tQ";
}
/// A tensor of `torch.<type>Storage`.
inline std::string tensor(const std::string& type, const std::string& key, std::int64_t elements,
                          std::int64_t offset, const std::vector<std::int64_t>& shape,
                          const std::vector<std::int64_t>& strides) {
  return global("torch._utils", "_rebuild_tensor_v2") + "(" +
         storage("torch", type + "Storage", key, elements) + number(offset) + tuple(shape) +
         tuple(strides) + "\x89" + ordered_dict() + "tR";
}
/// Key and value programs in turn.
inline std::string dict(const std::vector<std::string>& items) {
  std::string program = "}(";
  for (const auto& item : items) program += item;
  return program + "u";
}
inline std::string program(const std::string& body) { return "\x80\x02" + body + "."; }

/// The zip around a pickle, with its storages "0", "1", ...
inline std::string saved(const std::string& body, const std::vector<std::string>& storages,
                         const std::string& byte_order = "little") {
  std::vector<ZipEntry> entries{{"archive/data.pkl", program(body)},
                                {"archive/byteorder", byte_order}};
  for (std::size_t i = 0; i < storages.size(); ++i)
    entries.push_back({"archive/data/" + std::to_string(i), storages[i]});
  entries.push_back({"archive/version", "3\n"});
  return zip(entries);
}

/// What torch.save wrote before PyTorch 1.6.
struct Old {
  std::string body;
  std::vector<std::pair<std::string, std::string>>
      storages;  ///< number of elements as 8 bytes, data
  std::string magic =
      "\x8a\nl\xfc\x9c"
      "F\xf9 j\xa8P\x19.";
  std::int64_t protocol = 1001;
  std::string little_endian = "\x88";
  std::string keys = {};  ///< "" for "0", "1", ...

  std::string file() const {
    std::string list = "](";
    for (std::size_t i = 0; i < storages.size(); ++i) list += text(std::to_string(i));
    std::string result = "\x80\x02" + magic + program(number(protocol)) +
                         program(dict({text("protocol_version"), number(protocol),
                                       text("little_endian"), little_endian})) +
                         program(body) + program(keys.empty() ? list + "e" : keys);
    for (const auto& [elements, data] : storages) result += elements + data;
    return result;
  }
};
inline std::string old_saved(const std::string& body, const std::vector<std::string>& storages,
                             std::size_t item = 1) {
  Old old{body, {}};
  for (const std::string& data : storages)
    old.storages.emplace_back(le(static_cast<std::int64_t>(data.size() / item)), data);
  return old.file();
}

}  // namespace gbcompress::testing::pickle
