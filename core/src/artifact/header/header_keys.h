#pragma once
/// The maps of an artifact's header.

#include <string>
#include <string_view>

#include "artifact/header/cbor_reader.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// Reads one map whose keys are single letters: each at most once, none that is not known.
class Keys {
 public:
  Keys(CborReader& in, std::string_view known) : in_(in), known_(known), left_(in.map()) {}

  /// The next key, 0 at the end.
  char next() {
    if (left_ == 0) return 0;
    --left_;
    const std::string key = in_.text();
    const std::size_t at = key.size() == 1 ? known_.find(key[0]) : std::string_view::npos;
    if (at == std::string_view::npos)
      throw Error(Errc::kUnsupported, "header key '" + printable(key.substr(0, 64)) +
                                          "' is unknown; upgrade gbcompress to read this file");
    if (seen_ >> at & 1) in_.corrupt("key " + key + " is there twice");
    seen_ |= 1u << at;
    return key[0];
  }
  bool has(char key) const { return seen_ >> known_.find(key) & 1; }
  bool has_any(std::string_view keys) const {
    for (char key : keys)
      if (has(key)) return true;
    return false;
  }
  void require(std::string_view keys) const {
    for (char key : keys)
      if (!has(key)) in_.corrupt("key " + std::string(1, key) + " is missing");
  }

 private:
  CborReader& in_;
  std::string_view known_;
  std::int64_t left_;
  unsigned seen_ = 0;
};

}  // namespace gbcompress
