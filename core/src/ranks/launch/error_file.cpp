#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"

namespace gbcompress {

bool write_error_file(std::string_view message) noexcept {
  try {
    return write_error_file(message, [](const char* name) { return std::getenv(name); });
  } catch (...) {  // std::function may allocate
    return false;
  }
}

bool write_error_file(std::string_view message, const Environment& environment) noexcept {
  try {
    const char* path = environment("TORCHELASTIC_ERROR_FILE");
    if (!path || !*path) return false;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(
        std::chrono::system_clock::now().time_since_epoch());
    const std::string sentence = printable(message);
    // torchrun's summary shows the call stack and not the message, so the sentence stands in both.
    const nlohmann::ordered_json content = {
        {"message",
         {{"message", sentence},
          {"extraInfo",
           {{"py_callstack", sentence}, {"timestamp", std::to_string(seconds.count())}}}}}};
    const std::string text = content.dump();
    AtomicFile file(path, true);
    file.write(std::as_bytes(std::span(text)));
    file.commit();
    return true;
  } catch (...) {
    return false;
  }
}

}  // namespace gbcompress
