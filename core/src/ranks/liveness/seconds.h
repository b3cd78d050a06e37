#pragma once
#include <chrono>
#include <string>

namespace gbcompress {

/// "120 s", "0.5 s", "2.25 s".
inline std::string seconds_text(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  std::string rest = std::to_string(1000 + time.count() % 1000).substr(1);
  while (!rest.empty() && rest.back() == '0') rest.pop_back();
  return text + (rest.empty() ? "" : "." + rest) + " s";
}

}  // namespace gbcompress
