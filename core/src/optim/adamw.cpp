#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros_like.h>

#include <cmath>
#include <string>

#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"

namespace gbcompress {
namespace {

void require(bool holds, const char* name, const char* range, double value) {
  if (!holds)
    throw Error(Errc::kUsage, std::string("the optimiser's ") + name + " is " +
                                  std::to_string(value) + "; it must be " + range);
}

void check(const AdamWOptions& options) {
  require(std::isfinite(options.lr) && options.lr >= 0, "learning rate", "0 or more", options.lr);
  require(options.beta1 >= 0 && options.beta1 < 1, "beta1", "at least 0 and below 1",
          options.beta1);
  require(options.beta2 >= 0 && options.beta2 < 1, "beta2", "at least 0 and below 1",
          options.beta2);
  require(std::isfinite(options.eps) && options.eps > 0, "eps", "above 0", options.eps);
  require(std::isfinite(options.weight_decay) && options.weight_decay >= 0, "weight decay",
          "0 or more", options.weight_decay);
}

}  // namespace

AdamW::AdamW(at::Tensor parameters, AdamWOptions options)
    : options_(options), parameters_(std::move(parameters)) {
  check(options_);
  if (!parameters_.defined() || !parameters_.is_contiguous() ||
      parameters_.scalar_type() != at::kFloat)
    throw Error(Errc::kUsage, "the optimiser needs one contiguous float32 buffer of parameters");
  // The update works on storage; autograd must neither see it nor forbid it on a leaf.
  parameters_ = parameters_.detach();
  first_ = at::zeros_like(parameters_);
  second_ = at::zeros_like(parameters_);
}

void AdamW::step(const at::Tensor& gradients, double lr_factor) {
  require(std::isfinite(lr_factor) && lr_factor >= 0, "learning-rate factor", "0 or more",
          lr_factor);
  if (!gradients.defined() || gradients.sizes() != parameters_.sizes() ||
      gradients.scalar_type() != at::kFloat)
    throw Error(Errc::kShapeMismatch,
                "the optimiser's gradients must be float32 of the parameters' own shape");
  ++steps_;
  if (parameters_.numel() == 0) return;
  const at::Tensor count = at::full({}, static_cast<double>(steps_), at::kFloat);
  at::_fused_adamw_({parameters_}, {gradients.detach().contiguous()}, {first_}, {second_}, {},
                    {count}, options_.lr * lr_factor, options_.beta1, options_.beta2,
                    options_.weight_decay, options_.eps, /*amsgrad=*/false, /*maximize=*/false);
}

}  // namespace gbcompress
