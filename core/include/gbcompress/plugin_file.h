#pragma once
/// What a plugin file says of itself, read from its bytes. No LibTorch, and no code of the file is
/// run.

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// The marker inside a plugin file, which GBC_PLUGIN writes there.
struct PluginFingerprint {
  std::string name;     ///< "linear"
  std::string version;  ///< "0.1.0"
  /// In the order written: abi, torch, gcc, std, cxx11abi.
  std::vector<std::pair<std::string, std::string>> fields;

  std::string text() const;  ///< "abi=1 torch=2.11.0 ..."
  bool operator==(const PluginFingerprint&) const = default;
};

/// Reads the marker of a file of at most 256 MiB.
/// @throws Error(kNotFound, kIo); Error(kPluginRefused): not an ELF library of this processor,
///         truncated (something its headers declare reaches past the end), no marker, two markers,
///         a malformed one
PluginFingerprint scan_plugin(const std::filesystem::path& file);
/// The same for bytes already in memory. @param label  names the file in messages
PluginFingerprint scan_plugin(std::span<const std::byte> bytes, const std::string& label);

/// The fingerprint this host requires; its name is "gbcompress".
PluginFingerprint host_fingerprint();

/// One sentence a differing field ("it was built for LibTorch 2.12.0, this program has 2.11.0").
/// Empty when they agree.
std::vector<std::string> explain_mismatch(const PluginFingerprint& plugin,
                                          const PluginFingerprint& host);

}  // namespace gbcompress
