#pragma once
/// Untrusted JSON as a stream of events: nothing is built from it here, duplicate keys and depth
/// are refused before a handler sees them.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>

namespace gbcompress {

/// An object or array that is open.
struct JsonFrame {
  bool object = false;
  std::string key;  ///< the key whose value comes next or is open; "" in arrays
  std::unordered_set<std::string> seen;
};
using JsonFrames = std::span<const JsonFrame>;

/// Gets every value with the frames that are open around it, outermost first. To refuse, throw.
class JsonHandler {
 public:
  virtual ~JsonHandler() = default;
  virtual void begin(JsonFrames frames, bool object) = 0;
  virtual void end(JsonFrames frames) = 0;  ///< frames.back() closes
  virtual void text(JsonFrames frames, std::string& value) = 0;
  virtual void whole(JsonFrames frames, std::uint64_t value) = 0;
  virtual void truth(JsonFrames frames, bool) { other(frames); }
  virtual void other(JsonFrames frames) = 0;  ///< negative, fraction, null
};

/// @param label      what the text is, for messages
/// @param max_depth  open objects and arrays at a time
/// @throws Error(kCorrupt) for what is not JSON in UTF-8 or names a key twice, Error(kLimit) beyond
///         `max_depth` or 4 million keys
void scan_json(std::string_view text, const std::string& label, std::size_t max_depth,
               JsonHandler& handler);

}  // namespace gbcompress
