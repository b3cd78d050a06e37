#pragma once
/// What can be compressed: a set of named tensors, and where known a forward pass.

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/open_options.h"
#include "gbcompress/parameters.h"
#include "gbcompress/plugin_host.h"

namespace GBC_API gbcompress {

/// A model in memory. Its tensors are live: writing them changes what forward() computes.
class Model {
 public:
  virtual ~Model();
  /// "lenet-300-100", "torchscript", or "" for a bare state dict.
  virtual std::string arch() const = 0;
  virtual bool has_forward() const = 0;
  /// @param inputs  [batch, ...]; a flat or image-shaped batch is reshaped to what the model takes
  /// @return [batch, classes] or [batch, positions, classes]
  /// @throws Error(kShapeMismatch) naming the shape offered and, where known, the shape wanted
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

 protected:
  std::vector<NamedParameter> tensors_;
  std::map<std::string, double> norm_eps_;
  std::vector<Stage> stages_;

 private:
  std::vector<std::string> notes_;
};

/// Opens a model file by its content, not its suffix:
///   .safetensors, a state dict or checkpoint of torch.save (of any PyTorch from 0.2 on), weights
///   of torch.export, a folder or index of shards, with `arch` naming an architecture; without one
///   only names and values are known; TorchScript .pt (trusted input: it is code); its `arch` must
///   be empty.
/// @throws Error(kNotFound); Error(kShapeMismatch) listing names and shapes that differ;
///         Error(kUsage) for an unknown architecture, with the nearest known name, or for a file of
///         several models, unless `options` choose one; Error(kUnsupported) for one without a
///         model; Error(kNonFinite) naming the first tensor with NaN or infinity, unless all its
///         values are 0 and minus infinity: attention masks are so
std::unique_ptr<Model> open_model(const std::filesystem::path& file, const std::string& arch,
                                  const Registry& registry, const OpenOptions& options = {});

/// Names, shapes, element types, layers and ties of what open_model() opens, without values: of a
/// safetensors file nothing but the header is read, however large it is. Tensors are undefined and
/// info.std is 1. An `arch` is built to ask it for its layers, and TorchScript is loaded.
/// @throws as open_model(), but for what only values tell
std::vector<NamedParameter> list_parameters(const std::filesystem::path& file,
                                            const std::string& arch, const Registry& registry,
                                            const OpenOptions& options = {});

/// A freshly initialised model of a built-in or plugin architecture, by LibTorch's own rules from
/// its global generator (torch::manual_seed).
std::unique_ptr<Model> build_model(const std::string& arch, const Registry& registry);

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
