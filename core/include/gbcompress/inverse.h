#pragma once
/// How the output of a layer is sent back towards its input by weights that are not the layer's:
/// what feedback networks are made of (the strategy "dtp"). Layer types bring their own inverse by
/// register_inverse().

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gbcompress/export.h"
#include "gbcompress/noise.h"

namespace torch::nn {
class Module;
}

namespace GBC_API gbcompress {

/// What one forward call leaves for the way back, such as the indices of a pool. It belongs to the
/// call: calls do not overwrite each other's.
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
  ///                    biases stay out. Only asked for where affine()
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
};
/// @throws Error(kUsage) for options of the layer that it cannot invert
using InverseFactory = std::function<std::unique_ptr<LayerInverse>(const InverseRequest& request)>;

/// To be called where a plugin registers what it adds; it takes the place of an earlier one of that
/// type. What a strategy inverts by itself (dtp: docs/strategies.md) is not asked for here.
/// [thread-safe]
/// @param module_type  as ParameterInfo::module_type: "Conv3d", or a type of your own
/// @throws Error(kPluginRefused) without a type or a factory
void register_inverse(const std::string& module_type, InverseFactory factory);
/// @return an empty function where nobody registered one [thread-safe]
InverseFactory find_inverse(const std::string& module_type);

}  // namespace gbcompress
