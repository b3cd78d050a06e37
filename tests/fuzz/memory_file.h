#pragma once
/// Bytes as a file that has a path and no disk, for parsers that open files.

#include <filesystem>

#include "fuzz/target.h"

namespace gbcompress::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(Input content);
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::filesystem::path path() const;

 private:
  int fd_;
};

}  // namespace gbcompress::fuzz
