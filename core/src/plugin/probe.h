#pragma once
/// Trying a plugin in a process of its own before this one loads it.

#include <filesystem>
#include <functional>

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

inline constexpr unsigned kProbeSeconds = 60;

/// Runs `load` in a child of this process and waits for it: what it does there, crash, exit or
/// hang, ends as a message here.
/// @param load  loads the plugin; what it throws is what this throws
/// @throws Error(kPluginRefused) where `load` throws, or does not come to its end within
///         kProbeSeconds; Error(kFailure) where no process can be started
void probe_in_child(const std::filesystem::path& file, const std::function<void()>& load);

}  // namespace gbcompress
