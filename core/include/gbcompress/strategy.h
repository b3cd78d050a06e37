#pragma once
/// Ways of training: strategies, and the way back through a layer.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/model.h"
#include "gbcompress/noise.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"

namespace torch::nn {
class Module;
}

namespace GBC_API gbcompress {

// How the output of a layer is sent back towards its input by weights that are not the layer's:
// what feedback networks are made of (the strategy "dtp"). Layer types bring their own inverse by
// register_inverse().

/// What one forward call leaves for the way back, such as the indices of a pool. It belongs to the
/// call: calls do not overwrite each other's. Every call of a layer leaves as many tensors.
using CallRecord = std::vector<at::Tensor>;

/// A layer and the way back through it. Members are [thread-safe] as far as they are const.
class LayerInverse {
 public:
  virtual ~LayerInverse();
  /// What the layer computes for a batch. Nothing of the layer changes: running statistics stay.
  virtual at::Tensor forward(const at::Tensor& x, CallRecord& record) const = 0;
  /// From the layer's output, or something of its shape, to something of the shape of its input.
  /// @param record      of the call of forward() that is inverted
  /// @param difference  y is a difference of two outputs and the result is that of two inputs:
  ///                    biases stay out. Only used where affine()
  virtual at::Tensor inverse(const at::Tensor& y, const CallRecord& record,
                             bool difference) const = 0;
  /// Whether inverse() is an affine function of y for a given record.
  virtual bool affine() const { return false; }
  /// What is trained: leaves of float32, whose memory may be replaced. May be empty.
  virtual std::vector<at::Tensor> parameters() const { return {}; }
  /// Writes the transpose of the layer's weights into the parameters, as copies, and 0 into biases.
  virtual void make_symmetric() {}
};

struct InverseRequest {
  torch::nn::Module& layer;
  at::Tensor input;  ///< of one sample, [1, ...], for shapes
  NoiseKey init;     ///< for its first weights
  /// The inverse of a layer, or of a Sequential of layers, that this one is made of: what a
  /// residual block needs for its branches. Valid until the factory returns.
  /// @param name   distinguishes the parts of one layer; part of the key of their first weights
  /// @param input  of that part for one sample
  /// @throws Error(kUsage) naming the layer that has no inverse
  std::function<std::unique_ptr<LayerInverse>(torch::nn::Module& part, const std::string& name,
                                              const at::Tensor& input)>
      invert;
};
/// @throws Error(kUsage) for options of the layer that it cannot invert
using InverseFactory = std::function<std::unique_ptr<LayerInverse>(const InverseRequest& request)>;

/// To be called where a plugin registers what it adds; it takes the place of an earlier one of that
/// type. What a strategy inverts by itself (dtp: strategies.md) needs none.
/// [thread-safe]
/// @param module_type  as ParameterInfo::module_type: "Conv3d"; for inverse=published
/// "...#published"
/// @throws Error(kPluginRefused) without a type or a factory
void register_inverse(const std::string& module_type, InverseFactory factory);
/// @return an empty function if none is registered [thread-safe]
InverseFactory find_inverse(const std::string& module_type);

// How one batch changes a model. Backpropagation is one way ("backprop"); plugins add others, such
// as those that train each layer on a loss of its own, by Registrar::register_strategy().
//
// The loop around it is the same for all: g-nets write the model's parameters, the strategy puts a
// gradient into each parameter, and the bottleneck takes those gradients on into g-nets, integers
// and steps, adds what bits cost, and steps the optimizers.

class GenomicBottleneck;
class Group;
class Model;
class Registry;

/// A batch, or the part of one that is computed at a time.
struct StrategyBatch {
  at::Tensor inputs;      ///< [rows, ...] float32, or int64 [rows, positions] for text
  at::Tensor targets;     ///< [rows] or [rows, positions] int64
  at::Tensor teacher;     ///< the original model's output for these inputs; undefined without one
  double weight = 1;      ///< what gradients are multiplied by: this part's share of the whole
  std::int64_t step = 0;  ///< of the run, from 0; parts of one batch have the same
  std::vector<std::int64_t> samples;  ///< numbers of the rows in the data: keys for noise
};

/// What a strategy works on; everything outlives it.
struct StrategySetup {
  Model& model;
  GenomicBottleneck& bottleneck;
  Group* group = nullptr;  ///< the ranks; null: one process
  /// Mean loss of a batch, a scalar, from what the model gives for it.
  std::function<at::Tensor(const at::Tensor& output, const StrategyBatch& batch)> loss;
  at::Tensor example;  ///< inputs of one sample, [1, ...], for shapes
  std::map<std::string, std::string> options = {};
  std::uint64_t seed = 0;
  std::int64_t batch = 0;  ///< rows that a whole batch has; 0: not known
  std::int64_t steps = 0;  ///< batches of the whole run; 0: not known
};

struct Measurements {
  double loss = 0;                     ///< mean over the rows; one that is not finite ends the run
  std::map<std::string, double> more;  ///< by names of the strategy's own
};

/// One training run's way of doing a batch. Members are called by one thread, and by every rank in
/// the same order.
class Strategy {
 public:
  virtual ~Strategy();

  /// What must be there, by name; one that the program does not know refuses the run.
  ///   "stages"       the model says its stages (Model::stages())
  ///   "whole-batch"  every rank gets every row, in one part, and ends with the same gradients
  ///   "exits"        nothing; it says that early exits are trained where a model has some
  ///                  (Model::exits()). Without it such models are not trained
  virtual std::vector<std::string> needs() const { return {}; }
  /// Names of the options that it takes; others refuse the run.
  virtual std::vector<std::string> options() const { return {}; }

  /// Makes what it needs beside the model (feedback networks, bridges), from setup.seed. Called
  /// once, before anything below. @throws Error(kUsage) for options, or a model, that it cannot
  /// work with
  virtual void build(const StrategySetup& setup) = 0;
  /// Adds dL/dW times batch.weight to the .grad of every trainable parameter of the model, for
  /// whatever loss it gives the layer of W; parameters stay as they are. Trains what is its own.
  /// Autograd is on. The same batch after the same state gives the same bits.
  virtual Measurements step(const StrategyBatch& batch) = 0;

  /// What is its own and changes, the same on every rank: part of checkpoints, not of the file.
  /// After build() names, shapes and types are what they will be. Copies, or tensors that are not
  /// written to until the next step().
  virtual std::vector<StateEntry> aux_state() const { return {}; }
  /// Continues from what aux_state() gave: the same names, shapes and types in the same order.
  virtual void restore(const std::vector<StateEntry>& state);
  /// A line about what it trains beside the model, for reports; after build(). "" if nothing.
  virtual std::string describe() const { return {}; }
};

/// "backprop" and what plugins registered, sorted.
std::vector<std::string> known_strategies(const Registry& registry);

/// @throws Error(kPluginMissing) for an unknown name, with the known ones
void check_strategy(const StrategyChoice& choice, const Registry& registry);

/// A strategy of that name, built. [collective]
/// @param setup  its options are taken from `choice`
/// @throws as check_strategy(); Error(kUsage) for options it does not take and for needs that are
///         not fulfilled; what build() throws
std::unique_ptr<Strategy> make_strategy(const StrategyChoice& choice, StrategySetup setup,
                                        const Registry& registry);

}  // namespace gbcompress
