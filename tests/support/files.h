#pragma once
/// Helpers of tests that read and write files.

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/error.h"

namespace gbcompress::testing {

using Bytes = std::vector<std::byte>;

/// A folder of its own that goes away with the object.
class TempDir {
 public:
  TempDir() {
    std::string name = (std::filesystem::temp_directory_path() / "gbc-test-XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

inline Bytes to_bytes(std::string_view text) {
  const auto* p = reinterpret_cast<const std::byte*>(text.data());
  return {p, p + text.size()};
}

inline std::string to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline void put_file(const std::filesystem::path& path, std::string_view content) {
  std::ofstream(path, std::ios::binary) << content;
}

inline std::string get_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace gbcompress::testing

/// Expects Error with this code and a message of one line that holds `words`.
#define GBC_EXPECT_ERROR(statement, expected, words)                                     \
  try {                                                                                  \
    statement;                                                                           \
    ADD_FAILURE() << #statement " did not throw";                                        \
  } catch (const ::gbcompress::Error& error) {                                           \
    EXPECT_EQ(::gbcompress::errc_name(error.code()), ::gbcompress::errc_name(expected))  \
        << error.what();                                                                 \
    EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what(); \
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();  \
  }                                                                                      \
  static_assert(true)
