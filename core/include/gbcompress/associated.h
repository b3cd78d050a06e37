#pragma once
/// Associated learning with modules of one's own, layer by layer. (Kao and Chen, "Associated
/// learning", 2021.) The strategy "al" trains models that declare stages; this is for other loops.
///
///   AssociatedLayer layer({part_of(f), part_of(b), part_of(g), part_of(h)});
///   auto next = layer.forward({images, labels_one_hot});
///   layer.backward_and_update();
///   // next.signal and next.code go to the layer behind it

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gbcompress/optimizer.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

/// A module: what it computes, and the leaves that it learns.
struct AssociatedPart {
  std::function<at::Tensor(const at::Tensor&)> forward;
  std::vector<at::Tensor> parameters = {};
};
/// Of a torch::nn module holder whose forward() takes and returns one tensor.
template <typename Holder>
AssociatedPart part_of(Holder module) {
  return {[module](const at::Tensor& x) mutable { return module->forward(x); },
          module->parameters()};
}

struct AssociatedParts {
  AssociatedPart f;  ///< from the signal to the next one
  AssociatedPart b;  ///< bridge: from the next signal to the code
  AssociatedPart g;  ///< from the code before to the code
  AssociatedPart h;  ///< back from the code
};

/// A scalar. @param expected  without a graph
using AssociatedLoss =
    std::function<at::Tensor(const at::Tensor& given, const at::Tensor& expected)>;

/// Half the squared error, summed over a code and averaged over the rows: nats of unit Gaussians,
/// the unit of cross-entropy. `loss=nats` of the strategy "al".
at::Tensor code_nats(const at::Tensor& given, const at::Tensor& expected);

struct AssociatedOptions {
  AdamWOptions encoder = {.beta2 = 0.999, .weight_decay = 0};      ///< steps f and b
  AdamWOptions autoencoder = {.beta2 = 0.999, .weight_decay = 0};  ///< steps g and h
  AssociatedLoss bridge_loss = {};  ///< of b against the code; empty: code_nats()
  /// Of h against the code before; empty: code_nats(), or the cross-entropy where `first`.
  AssociatedLoss code_loss = {};
  /// The code before is the label, [rows, classes] of probabilities, and h gives scores of the
  /// classes.
  bool first = false;
};

class AssociatedLayer {
 public:
  /// What goes from layer to layer, without a graph.
  struct Signals {
    at::Tensor signal;  ///< [rows, ...]
    at::Tensor code;    ///< [rows, ...]; of the first layer: the label
  };
  enum class Path : std::uint8_t { kForward, kBridge, kBack };  ///< f, b, h

  /// @throws Error(kUsage) for a part without a function, or a parameter that two parts share
  explicit AssociatedLayer(AssociatedParts parts, AssociatedOptions options = {});
  ~AssociatedLayer();
  AssociatedLayer(AssociatedLayer&&) noexcept;

  /// Both losses of a batch, and the signals of the next layer. Autograd is on inside.
  Signals forward(const Signals& before);
  /// Gradients of the last forward(). @throws Error(kUsage) without one, or called twice
  void backward();
  /// Steps both optimizers and drops the gradients. @throws Error(kUsage) before backward()
  void update();
  void backward_and_update();

  /// One part alone, without a graph.
  at::Tensor infer(const at::Tensor& x, Path path) const;
  double bridge_loss() const;  ///< of the last forward()
  double code_loss() const;
  /// Factors on the learning rates of the options from now on, 0 or more. @throws Error(kUsage)
  void set_rates(double encoder, double autoencoder);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The answer of a chain: f of all layers, b of the last one, h from the last to the first. A
/// shorter span is an early exit. @throws Error(kUsage) for no layer
at::Tensor infer(std::span<const AssociatedLayer> layers, const at::Tensor& x);

}  // namespace gbcompress
