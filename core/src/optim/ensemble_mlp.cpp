#include "gbcompress/optimizer.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "base/checked.h"
#include "base/random.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

/// values[m, ...] uniform in [-bound, bound), each member from a stream of its own.
void fill_uniform(at::Tensor values, std::uint64_t seed, std::size_t layer, double bound,
                  std::uint64_t first) {
  const std::int64_t count = values[0].numel();
  float* data = values.data_ptr<float>();
  for (std::int64_t m = 0; m < values.size(0); ++m) {
    const RandomStream stream(seed, "ensemble", std::to_string(layer),
                              static_cast<std::uint64_t>(m));
    for (std::int64_t i = 0; i < count; ++i)
      data[m * count + i] = static_cast<float>(
          bound * (stream.bits(first + static_cast<std::uint64_t>(i)) * 0x1p-31 - 1));
  }
}

}  // namespace

EnsembleMlp::EnsembleMlp(std::int64_t members, std::vector<std::int64_t> widths, std::uint64_t seed,
                         Activation activation)
    : members_(members), widths_(std::move(widths)), activation_(activation) {
  if (members_ < 1)
    throw Error(Errc::kUsage, "an ensemble of " + std::to_string(members_) +
                                  " networks is not possible; give 1 or more");
  if (widths_.size() < 2 || widths_.size() > 16)
    throw Error(Errc::kUsage, "a network of " + std::to_string(widths_.size()) +
                                  " widths is not possible; give 2 to 16: inputs, hidden, outputs");
  const char* what = "an ensemble";
  std::int64_t total = 0;
  for (std::size_t l = 0; l < widths_.size(); ++l) {
    if (widths_[l] < 1)
      throw Error(Errc::kUsage, "a layer of width " + std::to_string(widths_[l]) +
                                    " is not possible; give 1 or more");
    if (l > 0)
      total = checked_add(
          total, checked_mul(widths_[l], checked_add(widths_[l - 1], 1, what), what), what);
  }
  if (checked_mul(total, members_, what) > std::int64_t{1} << 40)
    throw Error(Errc::kLimit, "an ensemble of more than 2^40 parameters is too large");
  for (std::size_t l = 0; l + 1 < widths_.size(); ++l) {
    const double bound = 1 / std::sqrt(static_cast<double>(widths_[l]));
    at::Tensor weight = at::empty({members_, widths_[l + 1], widths_[l]}, at::kFloat);
    at::Tensor bias = at::empty({members_, widths_[l + 1]}, at::kFloat);
    fill_uniform(weight, seed, l, bound, 0);
    fill_uniform(bias, seed, l, bound, static_cast<std::uint64_t>(weight[0].numel()));
    parameters_.push_back(weight.requires_grad_());
    parameters_.push_back(bias.requires_grad_());
  }
}

at::Tensor EnsembleMlp::forward(const at::Tensor& x) const {
  const bool shared = x.defined() && x.dim() == 2;
  if (!x.defined() || x.scalar_type() != at::kFloat || (!shared && x.dim() != 3) ||
      x.size(-1) != widths_.front() || (!shared && x.size(0) != members_))
    throw Error(Errc::kShapeMismatch, "the ensemble's input must be float32 [batch, " +
                                          std::to_string(widths_.front()) + "] or [" +
                                          std::to_string(members_) + ", batch, " +
                                          std::to_string(widths_.front()) + "]");
  at::Tensor y = x;
  for (std::size_t l = 0; l < parameters_.size(); l += 2) {
    const at::Tensor &weight = parameters_[l], &bias = parameters_[l + 1];
    if (l > 0) y = activation_ == Activation::kTanh ? y.tanh() : y.relu();
    if (l == 0 && shared) {
      // One product with the first layers of all members side by side.
      y = at::addmm(bias.flatten(), y, weight.flatten(0, 1).t())
              .view({x.size(0), members_, widths_[1]})
              .transpose(0, 1);
    } else {
      y = at::baddbmm(bias.unsqueeze(1), y, weight.transpose(1, 2));
    }
  }
  return y;
}

std::vector<at::Tensor> EnsembleMlp::gradients() const {
  std::vector<at::Tensor> result;
  for (const at::Tensor& p : parameters_) result.push_back(p.grad());
  return result;
}

void EnsembleMlp::zero_grad() {
  for (at::Tensor& p : parameters_) p.mutable_grad().reset();
}

std::vector<at::Tensor> EnsembleMlp::member(std::int64_t index) const {
  if (index < 0 || index >= members_)
    throw Error(Errc::kUsage, "member " + std::to_string(index) + " does not exist; there are " +
                                  std::to_string(members_));
  std::vector<at::Tensor> result;
  for (const at::Tensor& p : parameters_) result.push_back(p.detach()[index]);
  return result;
}

}  // namespace gbcompress
