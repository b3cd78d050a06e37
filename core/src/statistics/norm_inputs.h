#pragma once
/// What reaches a model's batch norms: seen from outside, whoever wrote the forward pass.

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <exception>
#include <functional>
#include <unordered_map>
#include <vector>

#include "gbcompress/model.h"
#include "model/batch_norms.h"

namespace gbcompress {

/// A batch norm that is about to run.
struct NormCall {
  std::size_t norm;  ///< index into the norms given
  at::Tensor input;  ///< [batch, channels, ...]
  double eps;        ///< is added to the variance
};

/// While it lives, forward passes of this thread report calls of aten::batch_norm with running
/// statistics of the model before they run: what a sink writes into these, the call computes with.
class NormInputs {
 public:
  using Sink = std::function<void(const NormCall&)>;
  NormInputs(const Model& model, const std::vector<BatchNorm>& norms, Sink sink);
  ~NormInputs();
  NormInputs(const NormInputs&) = delete;
  NormInputs& operator=(const NormInputs&) = delete;
  /// Throws what the sink threw, which ended the reports; to be called after forward passes.
  void check();

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call);
  void report(const at::RecordFunction& call) const;

  inline static thread_local NormInputs* current = nullptr;
  std::unordered_map<const void*, std::size_t> norms_;  ///< by storage of the running mean
  Sink sink_;
  std::exception_ptr failed_;
  at::CallbackHandle handle_ = at::INVALID_CALLBACK_HANDLE;
};

}  // namespace gbcompress
