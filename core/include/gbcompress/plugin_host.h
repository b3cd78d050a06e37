#pragma once
/// Finds, checks and loads plugins, and holds what they registered.

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gbcompress/registrar.h"

namespace gbcompress {

/// What the marker inside a plugin file says, read from its bytes without loading it.
struct PluginFingerprint {
  std::string name;     ///< "linear"
  std::string version;  ///< "0.1.0"
  /// In the order written: abi, torch, gcc, std, cxx11abi.
  std::vector<std::pair<std::string, std::string>> fields;

  std::string text() const;  ///< "abi=1 torch=2.11.0 ..."
};

/// The fingerprint this host requires.
PluginFingerprint host_fingerprint();

/// Reads the marker of a file. Runs none of its code, reads at most 256 MiB.
/// @throws Error(kNotFound, kIo); Error(kPluginRefused): not an ELF library of this processor,
///         truncated (its section or program headers reach past the end), no marker, two markers
PluginFingerprint scan_plugin(const std::filesystem::path& file);

/// One sentence a differing field ("built for LibTorch 2.12.0, this program has 2.11.0: ...").
/// Empty when they agree.
std::vector<std::string> explain_mismatch(const PluginFingerprint& plugin,
                                          const PluginFingerprint& host);

struct LoadedPlugin {
  std::filesystem::path file;
  PluginFingerprint fingerprint;
  std::vector<std::string> gnet_types;  ///< ids it added
  std::vector<std::string> models;
};

/// What is registered. [thread-safe once loading is over]
class Registry {
 public:
  struct Entry {
    std::shared_ptr<GNetType> type;
    std::string origin;  ///< file, or "program"
  };

  /// @return null where nobody claims the module or provides the id
  const GNetType* find_by_module(const std::string& module_type) const;
  const GNetType* find_by_id(const std::string& id) const;
  /// @throws Error(kPluginMissing) naming the id and the command that shows what is loaded
  const GNetType& require(const std::string& id, std::uint32_t revision) const;
  std::vector<std::string> ids() const;  ///< sorted
  const std::map<std::string, ModelFactory>& models() const { return models_; }

  /// Runs `fill` on a staging registrar and commits everything it registered, or nothing.
  /// @param origin  named in error messages
  /// @throws Error(kPluginRefused); what `fill` throws is passed on
  void stage(const std::string& origin, const std::function<void(Registrar&)>& fill);

 private:
  friend class StagingRegistrar;
  std::map<std::string, Entry> types_;           // by id
  std::map<std::string, std::string> modules_;   // module type name -> id
  std::map<std::string, ModelFactory> models_;
  std::map<std::string, std::string> model_origins_;
};

/// Loads plugins for the life of the process: a library is never unloaded, also not when the host
/// is destroyed, because graphs and vtables may still point into it.
class PluginHost {
 public:
  /// Folders that are searched, in order: `plugins` and `../lib/gbcompress/plugins` beside the
  /// executable (or beside libgbcompress.so), $GBCOMPRESS_PLUGIN_PATH (':'-separated), and
  /// $XDG_DATA_HOME/gbcompress/plugins. Relative entries are ignored, and the working directory is
  /// never searched.
  static std::vector<std::filesystem::path> search_path();

  /// Loads every `*.so` of the search path. A file that is refused does not stop the others; why
  /// is kept in `refused()`. The same plugin met again (same name and bytes) is skipped.
  void load_installed();
  /// Loads one file. @throws Error(kPluginRefused, kNotFound)
  const LoadedPlugin& load(const std::filesystem::path& file);

  const std::vector<LoadedPlugin>& loaded() const noexcept { return loaded_; }
  /// File and reason of each refused file of the search path.
  const std::vector<std::pair<std::filesystem::path, std::string>>& refused() const noexcept {
    return refused_;
  }
  Registry& registry() noexcept { return registry_; }
  const Registry& registry() const noexcept { return registry_; }

 private:
  Registry registry_;
  std::vector<LoadedPlugin> loaded_;
  std::vector<std::pair<std::filesystem::path, std::string>> refused_;
};

}  // namespace gbcompress
