#pragma once
/// Settings: built-in defaults < configuration file < GBCOMPRESS_* < --set < flags. One table holds
/// every key with its type, default and meaning; the file, the environment, `--set`, the help text
/// and docs/reference/config.md all come from it. No LibTorch.

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/compress_options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// One row of the table. At most one target is in force: setting one clears the others.
struct SettingInfo {
  std::string key;            ///< "gnet.hidden"
  std::string type;           ///< "integer", "number", "string", "integers", "numbers"
  std::string default_value;  ///< as TOML writes it; "" where unset by default
  std::string help;
  std::vector<std::string> choices;  ///< of a string with a fixed set of values; else empty
};
const std::vector<SettingInfo>& setting_table();
/// The keys of a `[[layer]]` table; none has a default.
const std::vector<SettingInfo>& layer_table();
/// "GBCOMPRESS_GNET_HIDDEN" for "gnet.hidden".
std::string environment_name(const std::string& key);

/// What to use in place of a name that earlier versions had, "use train.flip": of a key, an option
/// of the command line ("option world"), or a verb with its word ("bench scaling"); "" for any
/// other name.
std::string instead_of_removed(std::string_view name);

/// How the processes of a run meet and wait.
struct RankSettings {
  std::string backend = "auto";  ///< "gloo", "nccl"; "auto": by the device
  std::string listen;            ///< GroupOptions::listen
  double timeout = 120;          ///< seconds
};

/// All settings of a run, typed.
struct Settings {
  CompressOptions compress;  ///< output and overwrite are not settings and stay empty
  DataOptions data;
  std::int64_t threads = 0;    ///< 0: one for each core, one alone for small models
  std::string device = "cpu";  ///< where the model computes: device.h's device_named()
  RankSettings ranks;
  /// Keys that were set, and where: "train.epochs" by "--epochs"; "layer.type" by "run.toml:9:1".
  std::map<std::string, std::string> given;

  /// The defaults of setting_table(): quantized weights, and the program chooses what it can
  /// choose. Else those of the structures above, but for the g-nets' learning rate of 1e-2: fitting
  /// a given model bears more than training from random weights.
  Settings();

  /// Reads a TOML file (at most 1 MiB, nesting at most 32). `schema = 1` may stand at the top;
  /// `[[layer]]` tables are added to compress.bottleneck.layers. Nothing is changed on an error.
  /// @throws Error(kNotFound, kIo); Error(kConfig): "FILE:LINE:COLUMN: unknown key gnet.hiden; did
  ///         you mean gnet.hidden?" (all of the file at once), wrong type, out of range, syntax
  void apply_file(const std::filesystem::path& file);
  /// GBCOMPRESS_GNET_HIDDEN=8 sets gnet.hidden; every key has such a name. Unknown names are errors
  /// when they begin like a key's (GBCOMPRESS_GNET_...). GBCOMPRESS_FIT_STEPS, for tests, sets
  /// TrainOptions::fit_steps. @throws Error(kConfig)
  void apply_environment();
  /// One `key=value`, the value as TOML writes it; a bare word is a string, and the brackets of a
  /// list may be left out. @throws Error(kConfig)
  void apply_assignment(std::string_view assignment);
  /// A file, the environment and assignments of keys, as the command line takes them.
  /// @throws Error(kConfig); unknown keys of file and assignments are all named in one message
  void apply_below_flags(const std::optional<std::filesystem::path>& file,
                         const std::vector<std::string>& assignments);
  /// @param source  named in messages: "--epochs"; a flag is named in place of the key
  void apply(const std::string& key, const std::string& toml_value, const std::string& source);

  /// Whether apply_assignment() or a flag set the key, and not a file or the environment.
  bool given_in_call(const std::string& key) const;

  /// Every key that the result depends on with its resolved value, as one JSON object; the same
  /// settings, the same text. How the run is carried out (threads, ranks, checkpoints) is
  /// not in it.
  std::string to_json() const;
  /// The same for keys that differ from their defaults only, with the version whose defaults those
  /// are: the settings that a file stores, in few bytes.
  std::string changes_json() const;
};

/// What decides which settings have an effect, beside the settings themselves.
struct SettingsUse {
  bool data = false;
  bool images = false;  ///< the data are images
  bool text = false;    ///< the data are text
  bool from_scratch = false;
  std::int64_t ranks = 1;
};

/// One line that names each key of settings.given without an effect on compress(), with the reason:
/// "warning: --epochs and --minutes have no effect: there are no data to train on (`data`)"; empty
/// where all have one.
std::string unused_settings(const Settings& settings, const SettingsUse& use);
/// The same for a call that reads only some sections or keys: "data.", "train.threads". Keys from
/// files and the environment serve several calls and are not named.
std::string unused_settings(const Settings& settings, const std::vector<std::string>& read,
                            const std::string& call);

}  // namespace gbcompress
