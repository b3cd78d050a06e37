#pragma once
/// Models in memory, the tensors of any module, and labeled data.

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/data.h"
#include "gbcompress/gnet.h"
#include "gbcompress/options.h"
#include "gbcompress/registry.h"
#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}

namespace GBC_API gbcompress {

// The parameters and buffers of a module of whatever kind, with what layer types need to know.

struct NamedParameter {
  ParameterInfo info;
  at::Tensor tensor;      ///< the live leaf: what is written here is what the module computes with
  bool trainable = true;  ///< false for buffers (running means, masks, counters)
  std::string tied_to;    ///< name of an earlier entry that is the same memory, else ""
};

/// One thing that the next step of a training run depends on.
struct StateEntry {
  std::string name;  ///< "fc1.weight#theta", "fc1.bias#first_moment", "optimizer#steps"
  at::Tensor value;
};

/// Parameters, then buffers, each in the module's own order, under the names of Python's
/// state_dict(); types are named as ParameterInfo::module_type says ("Conv2d" for
/// torch::nn::Conv2dImpl and for __torch__.torch.nn.modules.conv.___torch_mangle_2.Conv2d).
/// TorchScript also keeps buffers that were registered with persistent=False: those are listed.
/// @throws Error(kUnsupported) for element types that cannot be stored
std::vector<NamedParameter> named_parameters(torch::nn::Module& module);
std::vector<NamedParameter> named_parameters(torch::jit::Module& module);

DType to_dtype(at::ScalarType type);         ///< @throws Error(kUnsupported)
at::ScalarType to_scalar_type(DType dtype);  ///< @throws Error(kUnsupported)

// What can be compressed: a set of named tensors, and where known a forward pass.

/// A model in memory. Its tensors are live: writing them changes what forward() computes.
class Model {
 public:
  virtual ~Model();
  /// "lenet-300-100", "torchscript", or "" for a bare state dict.
  virtual std::string arch() const = 0;
  virtual bool has_forward() const = 0;
  /// @param inputs  [batch, ...]; a flat or image-shaped batch is reshaped to what the model takes
  /// @return [batch, classes] or [batch, positions, classes]
  /// @throws Error(kShapeMismatch) naming the shape offered and, where known, the expected shape
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;
  virtual void train(bool on) = 0;
  /// Batch norms compute with their running statistics, and leave them, until the next train();
  /// everything else, dropout among it, stays as it is. Unless a model can tell its batch norms:
  /// train(false).
  virtual void freeze_norms() { train(false); }
  std::vector<NamedParameter>& tensors() { return tensors_; }
  const std::vector<NamedParameter>& tensors() const { return tensors_; }
  /// What batch norms add to the variance, by module path, of those that say it.
  const std::map<std::string, double>& norm_eps() const { return norm_eps_; }
  /// What opening its file left out or changed, one line each.
  const std::vector<std::string>& notes() const { return notes_; }
  void set_notes(std::vector<std::string> notes) { notes_ = std::move(notes); }
  /// Links of the chain that forward() is; the first one reshapes its input as forward() does.
  /// Empty where the model does not say them.
  const std::vector<Stage>& stages() const { return stages_; }
  /// Of one sample (BuiltModel::input_shape); empty where the model takes any, or does not say.
  const std::vector<std::int64_t>& input_shape() const { return input_shape_; }
  /// Early answers, the earliest first (BuiltModel::exits); most models have none.
  const std::vector<Exit>& exits() const { return exits_; }
  /// Which positions of a batch are no padding (BuiltModel::mask), bool [rows, positions];
  /// undefined where the model does not say.
  at::Tensor mask(const at::Tensor& inputs) const;
  /// forward() returns the output of this exit from now on: 1 is the earliest, 0 the model's end.
  /// @throws Error(kUsage) saying how many there are
  void take_exit(std::int64_t number);

 protected:
  std::vector<NamedParameter> tensors_;
  std::map<std::string, double> norm_eps_;
  std::vector<Stage> stages_;
  std::vector<Exit> exits_;
  std::vector<std::int64_t> input_shape_;
  std::size_t exit_ = 0;  ///< that is taken; 0: none
  std::function<at::Tensor(const at::Tensor&)> mask_;

 private:
  std::vector<std::string> notes_;
};

/// What a stage, or an exit, gives for x.
/// @param mask  Model::mask() of the inputs that x was made of; undefined: none
at::Tensor apply(const Stage& stage, const at::Tensor& x, const at::Tensor& mask);
at::Tensor apply(const Exit& exit, const at::Tensor& x, const at::Tensor& mask);

/// Opens a model file by its content, not its suffix:
///   .safetensors, a state dict or checkpoint of torch.save (of any PyTorch from 0.2 on), weights
///   of torch.export, a folder or index of shards, with `arch` naming an architecture; without one
///   only names and values are known; TorchScript .pt (trusted input: it is code); its `arch` must
///   be empty.
/// @throws Error(kNotFound); Error(kShapeMismatch) listing names and shapes that differ;
///         Error(kUsage) for an unknown architecture, with the nearest known name, or for a file of
///         several models, unless `options` choose one; Error(kUnsupported) for one without a
///         model. Tensors with NaN or infinity are not trainable
std::unique_ptr<Model> open_model(const std::filesystem::path& file, const std::string& arch,
                                  const Registry& registry, const OpenOptions& options = {});

/// Names, shapes, element types, layers and ties of what open_model() opens, without values: of a
/// safetensors file nothing but the header is read, however large it is. Tensors are undefined and
/// info.std is 1. An `arch` is built to ask it for its layers, and TorchScript is loaded.
/// @throws as open_model(), but for what only values tell
std::vector<NamedParameter> list_parameters(const std::filesystem::path& file,
                                            const std::string& arch, const Registry& registry,
                                            const OpenOptions& options = {});

/// A freshly initialized model of a built-in or plugin architecture, by LibTorch's own rules from
/// its global generator (torch::manual_seed).
std::unique_ptr<Model> build_model(const std::string& arch, const Registry& registry);

/// What `arch` ("name" or "name:options") builds for weights of these names and shapes;
/// its own values are those of build_model().
/// @throws Error(kUsage) for an unknown name; what the factory throws, other exceptions as
///         Error(kFailure)
std::unique_ptr<Model> build_for(const std::string& arch, const std::vector<ParameterInfo>& weights,
                                 const Registry& registry);

/// Built-in and plugin architecture names, sorted.
std::vector<std::string> known_architectures(const Registry& registry);

/// Adds mlp[:WIDTHS], lenet-300-100, lenet5, resnet20[:CLASSES], resnet32, resnet56. `lenet5` is
/// conv1 (20, 5x5), conv2 (50, 5x5), fc1 (500), fc2 (10), each but the last with ReLU.
void register_builtin_models(Registrar& registrar);

/// Copies every tensor of a state dict into a model of the same names and shapes; info.dtype and
/// info.std become those of the values. Of tied tensors one name is enough.
/// @throws Error(kShapeMismatch) listing up to eight differences; nothing has then been changed
void load_tensors(Model& model, const std::vector<NamedParameter>& values);

/// Rewrites every batch norm (weight, bias, running_mean and running_var of one module) to the same
/// function of statistics 0 and 1: two vectors are then constant and need not be stored. Its eps is
/// the model's norm_eps(), or 1e-5 where the model does not say.
struct FoldedNorms {
  std::int64_t all = 0, eps_unknown = 0;
};
FoldedNorms fold_batch_norms(Model& model);

}  // namespace gbcompress
