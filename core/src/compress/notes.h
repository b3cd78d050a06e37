#pragma once
/// Why a target was not reached, as reports say it.

#include <cstdint>
#include <cstdio>
#include <string>

namespace gbcompress {

/// As printf, for messages of up to 300 bytes.
inline std::string formatted(const char* format, auto... values) {
  char buffer[300];
  std::snprintf(buffer, sizeof buffer, format, values...);
  return buffer;
}

/// If the models of all files of the wanted size are collapsed.
/// @param smallest  bytes of the smallest file found whose model is not
inline std::string out_of_reach(std::int64_t wanted, std::int64_t smallest) {
  return formatted(
      "the target is %lld bytes, and the file has %lld; no smaller file was found whose model is "
      "not collapsed (keeps half of the original's quality above chance)",
      static_cast<long long>(wanted), static_cast<long long>(smallest));
}

/// If every model found is.
inline std::string all_collapsed(std::int64_t wanted, std::size_t bytes) {
  return formatted(
      "the target is %lld bytes, and the file has %zu; every model found is collapsed (below half "
      "of the original's quality above chance)",
      static_cast<long long>(wanted), bytes);
}

}  // namespace gbcompress
