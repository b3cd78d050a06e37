#pragma once
/// Plugins: what they add, what their files say of themselves, and the host that loads them.
/// LibTorch's class is only named; plugin.h brings it.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gbcompress/gnet.h"
#include "gbcompress/version.h"

namespace GBC_API at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace GBC_API gbcompress {

// A layer type: how the parameters of one kind of module are cut into tiles and put together
// again.

/// Stateless; one object serves all parameters of its kind. [thread-safe]
class GNetType {
 public:
  virtual ~GNetType();

  /// Stored in artifacts and never renamed: "linear", "conv". 1 to 64 of [a-z0-9_.-].
  virtual std::string_view id() const noexcept = 0;
  /// Raised when plan or build change so that old artifacts need the old code.
  virtual std::uint32_t revision() const noexcept { return 1; }
  /// Module type names this type claims, as ParameterInfo::module_type spells them. No other type
  /// may claim the same.
  virtual std::vector<std::string> modules() const = 0;
  /// Optional abilities by name; unknown names are 0, so that new names break no compiled plugin.
  ///   "custom-build"      build() does more than placing the tiles
  ///   "unused-positions"  some positions of uncropped tiles do not reach the result
  ///   "revision-N"        build() also takes plans of its older revision N
  ///   "only-by-rule"      parameters are planned only where a [[layer]] rule names the type
  virtual int supports(std::string_view ability) const noexcept;

  /// The plan for a parameter of a claimed module, or nothing: the parameter then stays plain.
  /// Pure: the same arguments give the same plan.
  /// @throws as validate(plan), and Error(kShapeMismatch) where the plan's shape is not the
  ///         parameter's although the type has no "custom-build"
  std::optional<GNetPlan> plan(const ParameterInfo& parameter, const GNetOptions& options) const;

  /// The parameter's value from its tiles; differentiable by autograd.
  /// @param tiles  [tiles, tile_rows, tile_cols, kernel] float32
  /// @param shape  the parameter's own shape, and so the result's
  /// @throws Error(kShapeMismatch) where tiles or result have another shape
  at::Tensor build(const GNetPlan& plan, const at::Tensor& tiles,
                   const std::vector<std::int64_t>& shape) const;

 private:
  virtual std::optional<GNetPlan> plan_impl(const ParameterInfo& parameter,
                                            const GNetOptions& options) const = 0;
  /// Unless overridden: place_tiles(plan, tiles).
  virtual at::Tensor build_impl(const GNetPlan& plan, const at::Tensor& tiles) const;
};

/// Puts tiles [tiles, tile_rows, tile_cols, kernel] together as the plan says, to plan.shape.
/// Differentiable; cropped positions are dropped. The result is contiguous.
/// @throws Error(kShapeMismatch)
at::Tensor place_tiles(const GNetPlan& plan, const at::Tensor& tiles);

using PlanFunction =
    std::function<std::optional<GNetPlan>(const ParameterInfo&, const GNetOptions&)>;
using BuildFunction = std::function<at::Tensor(const GNetPlan&, const at::Tensor& tiles)>;

// What a plugin, or the program itself, adds to the host.

/// Name of a layer type made from two callables.
struct GNetTypeInfo {
  std::string id;                    ///< "linear"
  std::vector<std::string> modules;  ///< {"Linear"}
  std::uint32_t revision = 1;
};

struct BuiltModel;

/// The request that a model factory gets.
struct ModelRequest {
  std::string arch;     ///< the whole request, "mlp:784-300-10"
  std::string options;  ///< what stands behind the first ':', "784-300-10", or ""
  /// Names and shapes of the weights that will be loaded; empty when the model is built fresh.
  std::vector<ParameterInfo> weights;
  /// Builds another architecture for the same weights: for one that adds something to others. Valid
  /// until the factory returns.
  /// @throws Error(kUsage) for an unknown one
  std::function<BuiltModel(const std::string& arch)> build = {};
};
/// One link of a model whose forward pass is a chain: the next one takes what it gives.
struct Stage {
  std::string name;  ///< "conv1", "layer2"
  std::function<at::Tensor(const at::Tensor&)> forward;
  /// Its layers, in the model's own memory: one module, or a Sequential of those that forward()
  /// runs one after another.
  std::shared_ptr<torch::nn::Module> module;
  /// forward() for sequences of unequal length; empty: it needs no mask.
  /// @param mask  of the model's inputs (BuiltModel::mask), bool [rows, positions]
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& mask)> forward_masked = {};
};
/// An early answer of such a chain.
struct Exit {
  std::size_t stages = 0;  ///< that are computed first, at least 1
  /// What the last of them gives to scores of the classes, [rows, classes].
  std::function<at::Tensor(const at::Tensor&)> forward;
  /// As Stage::forward_masked.
  std::function<at::Tensor(const at::Tensor& x, const at::Tensor& mask)> forward_masked = {};
};
/// A module whose `forward(Tensor) -> Tensor` is called as `forward(const at::Tensor&)`.
struct BuiltModel {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const at::Tensor&)> forward;
  /// Shape of one input without the batch, empty where any will do: {784}, {3, 32, 32}.
  std::vector<std::int64_t> input_shape;
  /// Whose forward passes, one after another, are the model's; empty where it does not say.
  std::vector<Stage> stages = {};
  /// Early exits, the earliest first, whose parameters are the module's like all others.
  std::vector<Exit> exits = {};
  /// Which positions of a batch of inputs are no padding, bool [rows, positions]. It travels beside
  /// the signals between stages, which cannot tell padding from a position whose features are 0.
  /// Empty where sequences have no padding.
  std::function<at::Tensor(const at::Tensor& inputs)> mask = {};
};
using ModelFactory = std::function<BuiltModel(const ModelRequest&)>;

class Strategy;
/// A new object for each run. (gbcompress/strategy.h)
using StrategyFactory = std::function<std::unique_ptr<Strategy>()>;

/// [not thread-safe] Valid only inside the registration call. Virtual functions are only ever
/// added at the end, with a new ABI number.
class Registrar {
 public:
  virtual ~Registrar();

  /// @throws Error(kPluginRefused) where the id or a module is already claimed, naming both files
  virtual void register_gnet_type(std::unique_ptr<GNetType> type) = 0;
  /// An architecture that `--arch NAME[:options]` can build.
  /// @throws Error(kPluginRefused) where the name is taken
  virtual void register_model(const std::string& name, ModelFactory factory) = 0;
  /// A way of training that `--strategy NAME` can choose.
  /// @throws Error(kPluginRefused) where the name is taken
  virtual void register_strategy(const std::string& name, StrategyFactory factory) = 0;

  /// A layer type from two callables. An empty `build` means: place the tiles as the plan says.
  void register_gnet_type(GNetTypeInfo info, PlanFunction init, BuildFunction build = {});
  /// The short form: the id is the module's name in lower case.
  void register_gnet_type(const char* module, PlanFunction init, BuildFunction build = {});
};

// What a plugin file says of itself, read from its bytes. No LibTorch, and no code of the file is
// run.

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

// Finds, checks and loads plugins, and holds what they registered.

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
  struct Entry {
    std::shared_ptr<GNetType> type;
    std::string origin;  ///< file, or "program"
  };

  /// @return null if no layer type claims the module or has the id
  const GNetType* find_by_module(const std::string& module_type) const;
  const GNetType* find_by_id(const std::string& id) const;
  /// The type that can build plans of `revision`: its own revision, or an older one for which it
  /// supports("revision-N").
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
  std::map<std::string, Entry> types_;          // by id
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
