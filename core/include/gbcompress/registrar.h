#pragma once
/// What a plugin, or the program itself, adds to the host: layer types, architectures, strategies.
/// LibTorch's classes are only named.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gbcompress/gnet_type.h"
#include "gbcompress/version.h"

namespace GBC_API at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace GBC_API gbcompress {

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

  /// A layer type from two callables. An empty `build` means: place the tiles as the specification
  /// says.
  void register_gnet_type(GNetTypeInfo info, SpecFunction init, BuildFunction build = {});
  /// The short form: the id is the module's name in lower case.
  void register_gnet_type(const char* module, SpecFunction init, BuildFunction build = {});
};

}  // namespace gbcompress
