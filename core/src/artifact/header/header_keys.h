#pragma once
/// The maps of an artifact's header.

#include <cstdint>
#include <string>
#include <string_view>

#include "artifact/header/cbor_reader.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// A set of lower-case letters.
struct Letters {
  consteval Letters(const char* text) {
    for (; *text != 0; ++text) bits |= 1u << (*text - 'a');
  }
  std::uint32_t bits = 0;
};

/// Reads one map whose keys are single letters: each at most once, none that is not known.
class Keys {
 public:
  Keys(CborReader& in, Letters known) : in_(in), known_(known), left_(in.map()) {}

  /// The next key, 0 at the end.
  char next() {
    if (left_ == 0) return 0;
    --left_;
    const std::string key = in_.text();
    const bool letter = key.size() == 1 && key[0] >= 'a' && key[0] <= 'z';
    const std::uint32_t bit = letter ? known_.bits & 1u << (key[0] - 'a') : 0;
    if (bit == 0)
      throw Error(Errc::kUnsupported, "header key '" + printable(key.substr(0, 64)) +
                                          "' is unknown; upgrade gbcompress to read this file");
    if ((seen_ & bit) != 0) throw in_.error("key " + key + " is there twice");
    seen_ |= bit;
    return key[0];
  }
  bool has(char key) const { return (seen_ >> (key - 'a') & 1) != 0; }
  bool has_any(Letters keys) const { return (seen_ & keys.bits) != 0; }
  void require(std::string_view keys) const {
    for (char key : keys)
      if (!has(key)) throw in_.error("key " + std::string(1, key) + " is missing");
  }

 private:
  CborReader& in_;
  Letters known_;
  std::int64_t left_;
  std::uint32_t seen_ = 0;
};

}  // namespace gbcompress
