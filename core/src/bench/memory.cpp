#include "bench/memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace gbcompress {
namespace {

/// A line "VmRSS:     1234 kB" of /proc/self/status.
std::int64_t status_bytes(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    std::int64_t kilobytes = 0;
    if (word == key && status >> kilobytes) return kilobytes * 1024;
  }
  return -1;
}

}  // namespace

std::int64_t resident_bytes() { return status_bytes("VmRSS:"); }
std::int64_t peak_bytes() { return status_bytes("VmHWM:"); }

bool reset_peak() {
  ::malloc_trim(0);
  std::ofstream file("/proc/self/clear_refs");
  return static_cast<bool>(file << "5" << std::flush);
}

}  // namespace gbcompress
