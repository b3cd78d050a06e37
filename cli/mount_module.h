#pragma once
/// The part of `mount` that needs libfuse3. It lies in a module of its own, libgbcompress_mount.so,
/// which the program opens for it, so that nothing else needs that library.

#include <filesystem>
#include <functional>
#include <string>

#include "gbcompress/expanded_folder.h"

namespace gbcompress::cli {

struct Mounting {
  const ExpandedFolder& folder;
  std::filesystem::path point;  ///< an empty folder
  int stop = -1;                ///< a descriptor that becomes readable when it is to be unmounted
  std::function<void()> mounted;
  /// A read that failed, with its reason. Called by several threads.
  std::function<void(const std::string& reason)> failed;
};

/// Answers reads until the file system is unmounted, by another program or because of `stop`.
/// @throws Error(kFailure) where the module, libfuse3 or the kernel's part is missing, with the
///         command that installs it
void serve_mount(const Mounting& mounting);

/// What the module exports.
struct MountModule {
  const char* version;  ///< GBC_VERSION_STRING
  void (*serve)(const Mounting& mounting);
};
inline constexpr const char* kMountModuleEntry = "gbcompress_mount_module";

}  // namespace gbcompress::cli
