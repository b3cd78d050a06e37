#pragma once
/// One component of associated learning: a piece of the model, and what trains it.

#include <gbcompress/optimizer.h>
#include <gbcompress/registry.h>
#include <gbcompress/strategy.h>

#include <map>
#include <memory>

#include "../common/batch_accuracy.h"
#include "settings.h"

namespace gbcompress::al {

/// What one component hands to the next: a batch on its way, without a graph.
struct Item {
  /// s: what the layers made of the inputs, [rows, ...]; undefined on ranks that do not need it
  at::Tensor signal;
  at::Tensor code;     ///< t: what the autoencoders made of the labels, [rows, width]
  at::Tensor targets;  ///< [rows] int64
  at::Tensor teacher;  ///< [rows, classes], or undefined
  double weight = 1;
  /// Positions of the inputs that are no padding, bool [rows, positions], or undefined.
  at::Tensor mask;
  std::int64_t step = 0;  ///< that the batch began at
  std::vector<std::int64_t> samples = {};
  bool there() const { return targets.defined(); }
};

/// What the last stage made of the batch that it read out last.
struct ReadOut {
  double loss = 0;
  BatchAccuracy accuracy = {};
};

/// How signals lie in memory, whoever made them: maps with their channels last, others row by row.
at::MemoryFormat signal_layout(std::size_t dimensions);
at::Tensor laid_out(const at::Tensor& signal);

/// [rows, features] of vectors, maps and sequences: maps are averaged to at most `pool` rows and
/// columns, sequences over the positions of the mask.
/// @param mask  of a sequence, bool [rows, positions]; undefined: rows of zeros are padding
at::Tensor pooled(const at::Tensor& signal, std::int64_t pool, const at::Tensor& mask = {});

/// f: stages of the model. b: the bridge from what f gives to the code. g: from the code before to
/// this one's; h: back again. f learns by b's error against the code, g and h by h's error.
class Component {
 public:
  /// @param input   of its first stage for one sample, [1, ...]
  /// @param mask    of that sample, bool [1, positions], or undefined
  /// @param before  width of the code before it: the number of classes for the first
  /// @param exit    parameters of the model's exit behind it, by their names in it
  /// ("bridge0.weight",
  ///                "back.bias"): b and h are these, and learn as the model does. Empty: its own
  Component(std::vector<Stage> stages, const at::Tensor& input, const at::Tensor& mask,
            std::int64_t before, const Settings& settings, std::size_t number, std::uint64_t seed,
            const std::map<std::string, at::Tensor>& exit);

  /// One batch: gradients are added to the parameters of f; b, g and h make their steps.
  /// @return what goes to the next component
  /// @param lr_factor  on the learning rate of what is its own
  Item step(const Item& in, double lr_factor = 1);
  /// What the code that the bridge gives for this signal is decoded to: the code before it.
  at::Tensor bridge(const at::Tensor& signal, const at::Tensor& mask) const;
  at::Tensor decode(const at::Tensor& code) const;

  double bridge_loss() const { return bridge_loss_; }  ///< of the last step, nats of unit Gaussians
  double code_loss() const { return code_loss_; }      ///< cross-entropy for the first component
  void set_losses(double bridge, double code) { bridge_loss_ = bridge, code_loss_ = code; }
  const at::Tensor& example() const { return example_; }  ///< of what f gives, [1, ...]
  std::int64_t width() const { return width_; }
  /// Weights of b, g and h, as far as they are its own.
  std::int64_t own_weights() const;
  const std::vector<Stage>& stages() const { return stages_; }

  /// Parameters of the model that are not its stages': those of an exit.
  const std::vector<at::Tensor>& of_exit() const { return of_exit_; }
  /// b, then g and h, as far as they are its own; their moments; the same shapes at any time.
  std::vector<at::Tensor> state() const;
  void restore(const std::vector<at::Tensor>& state);

 private:
  struct Dense {
    at::Tensor weight, bias;
    at::Tensor operator()(const at::Tensor& x) const;
  };
  Dense dense(std::int64_t inputs, std::int64_t outputs, const std::string& name,
              std::uint64_t seed, std::vector<at::Tensor>& parameters);
  static void update(AdamW& optimizer, std::vector<at::Tensor>& parameters, double lr_factor);
  at::Tensor error(const at::Tensor& given, const at::Tensor& expected) const;

  std::vector<Stage> stages_;
  std::int64_t pool_, width_;
  Forms forms_;
  CodeLoss loss_;
  bool first_;
  std::string name_;
  at::Tensor example_;
  at::Device device_ = at::kCPU;  ///< of what it computes
  std::vector<Dense> bridge_;
  Dense code_, back_;
  std::vector<at::Tensor> of_bridge_, of_codes_, of_exit_;
  std::unique_ptr<AdamW> bridge_optimizer_, code_optimizer_;
  double bridge_loss_ = 0, code_loss_ = 0;
};

}  // namespace gbcompress::al
