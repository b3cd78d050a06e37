#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "gbcompress/registry.h"

namespace gbcompress::cli {

struct ProbeResult {
  PluginFingerprint fingerprint;
  std::vector<std::string> types, models, strategies;
};

/// Scans a plugin, then loads it in a process of its own: whatever it does there, crash, exit or
/// hang for a minute, ends as a message here.
/// @throws Error(kNotFound, kIo, kPluginRefused), Error(kInterrupted)
ProbeResult probe_plugin(const std::filesystem::path& file);

}  // namespace gbcompress::cli
