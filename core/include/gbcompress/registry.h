#pragma once
/// Finds, checks and loads plugins, and holds what they registered.

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/gnet_type.h"
#include "gbcompress/plugin_file.h"
#include "gbcompress/registrar.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// The LibTorch that is running against the one this program was compiled for.
/// @return a sentence naming both versions where they differ
std::optional<std::string> torch_runtime_mismatch();

struct LoadedPlugin {
  std::filesystem::path file;
  PluginFingerprint fingerprint;
  std::string sha256;                   ///< of the file's bytes, in hexadecimal
  std::vector<std::string> gnet_types;  ///< ids it added
  std::vector<std::string> models;
  std::vector<std::string> strategies;
};

/// What is registered. [thread-safe once loading is over]
class Registry {
 public:
  struct RegisteredType {
    std::shared_ptr<GNetType> type;
    std::string origin;  ///< file, or "program"
  };

  /// @return null if no layer type claims the module or has the id
  const GNetType* find_by_module(const std::string& module_type) const;
  const GNetType* find_by_id(const std::string& id) const;
  /// The type that can build specifications of `revision`: its own revision, or an older one for
  /// which it supports("revision-N").
  /// @throws Error(kPluginMissing) naming the id and the command that shows what is loaded
  const GNetType& require(const std::string& id, std::uint32_t revision) const;
  std::vector<std::string> ids() const;  ///< sorted
  const std::map<std::string, ModelFactory>& models() const { return models_; }
  const std::map<std::string, StrategyFactory>& strategies() const { return strategies_; }

  struct Added {
    std::vector<std::string> gnet_types, models, strategies;
  };
  /// Runs `fill` on a staging registrar and commits everything it registered, or nothing.
  /// @param origin  named in error messages
  /// @throws Error(kPluginRefused), also where `fill` swallowed it; what `fill` throws is passed on
  Added stage(const std::string& origin, const std::function<void(Registrar&)>& fill);

 private:
  friend class StagingRegistrar;
  std::map<std::string, RegisteredType> types_;  // by id
  std::map<std::string, std::string> modules_;  // module type name -> id
  std::map<std::string, ModelFactory> models_;
  std::map<std::string, std::string> model_origins_;  // name -> file, or "program"
  std::map<std::string, StrategyFactory> strategies_;
  std::map<std::string, std::string> strategy_origins_;
};

/// Loads plugins for the life of the process: a library is never unloaded, also not when the host
/// is destroyed, because graphs and vtables may still point into it.
class PluginHost {
 public:
  /// Folders that are searched, in order: `plugins` and `../lib/gbcompress/plugins` beside the
  /// executable, `plugins` and `gbcompress/plugins` beside libgbcompress.so,
  /// $GBCOMPRESS_PLUGIN_PATH (':'-separated), and $XDG_DATA_HOME/gbcompress/plugins (default
  /// ~/.local/share). Relative entries are ignored, and the working directory is never searched.
  static std::vector<std::filesystem::path> search_path();

  /// Loads every `*.so` of the search path, by name within a folder. A file that is refused does
  /// not stop the others; why is kept in `refused()`. The same plugin found again (same name and
  /// bytes) is skipped; another file of a loaded plugin's name is refused, so that files given to
  /// load() before this call win over installed ones.
  void load_installed();

  /// Loads one file, whose bytes must be those that its manifest names (`row.so.sha256` beside
  /// `row.so`, as builds and installations write it); without a manifest it is loaded in a child
  /// process first, so that a damaged one ends that and not this. Asking twice for the same plugin,
  /// by the same file or another one, is an error: it is more likely a mistake than a wish.
  /// @throws Error(kNotFound); Error(kPluginRefused): what scan_plugin() refuses, a fingerprint
  ///         that differs (each field explained), other bytes than the manifest names, a child
  ///         process that it ended or kept for a minute, a file or folder that everybody may write
  ///         to, a library that does not link or has no entry, an entry that fails, a name or layer
  ///         type that is taken
  const LoadedPlugin& load(const std::filesystem::path& file);

  const std::deque<LoadedPlugin>& loaded() const noexcept { return loaded_; }
  /// File and reason of each refused file of the search path.
  const std::vector<std::pair<std::filesystem::path, std::string>>& refused() const noexcept {
    return refused_;
  }
  Registry& registry() noexcept { return registry_; }
  const Registry& registry() const noexcept { return registry_; }

 private:
  const LoadedPlugin* load_file(const std::filesystem::path& file, bool skip_copies);
  void load_folder(const std::filesystem::path& folder);

  Registry registry_;
  std::deque<LoadedPlugin> loaded_;
  std::vector<std::pair<std::filesystem::path, std::string>> refused_;
};

// The start of a new plugin project.

/// Writes a folder that builds as it stands: CMakeLists.txt, `<name>.cpp`, README.md. Its contract
/// test comes with the SDK.
/// @param name    1 to 64 of [a-z0-9_], beginning with a letter
/// @param folder  is created and must not exist yet; its parent must
/// @throws Error(kUsage) for the name; Error(kExists); Error(kIo), and then nothing stays behind
void write_plugin_template(const std::string& name, const std::filesystem::path& folder);

}  // namespace gbcompress
