#pragma once
/// Pickle programs in the words that torch.save uses.

#include <cstdint>
#include <string>
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

}  // namespace gbcompress::testing::pickle
