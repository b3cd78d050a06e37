#pragma once
/// Trying doors that must not open.

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "gbcompress/error.h"
#include "gbcompress/registry.h"

namespace gbcompress::test {

inline std::filesystem::path bad(const std::string& name) {
  return std::filesystem::path(GBC_BAD_FOLDER) / (name + ".so");
}
inline std::filesystem::path builtin(const std::string& name) {
  return std::filesystem::path(GBC_PLUGIN_FOLDER) / (name + ".so");
}

/// The message with which a file is refused; nothing may have been registered.
inline std::string refusal(PluginHost& host, const std::filesystem::path& file,
                           Errc wanted = Errc::kPluginRefused) {
  const auto ids = host.registry().ids();
  const std::size_t loaded = host.loaded().size();
  try {
    host.load(file);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), wanted) << error.what();
    EXPECT_EQ(host.registry().ids(), ids);
    EXPECT_EQ(host.loaded().size(), loaded);
    EXPECT_NE(std::string(error.what()).find(file.filename().string()), std::string::npos)
        << "does not name the file: " << error.what();
    return error.what();
  }
  ADD_FAILURE() << file << " was loaded";
  return "";
}

/// The message with which `start` refuses what it was given.
template <typename Start>
std::string usage_refusal(const std::string& options, const Start& start) {
  try {
    start();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), Errc::kUsage);
    return error.what();
  }
  ADD_FAILURE() << options << " was taken";
  return "";
}

inline void expect_has(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(message.find(part), std::string::npos) << "not \"" << part << "\" in: " << message;
}

}  // namespace gbcompress::test
