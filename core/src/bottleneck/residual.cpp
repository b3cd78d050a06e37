// Parameters that are stored as integers times a step.
#include <ATen/ATen.h>

#include "bottleneck/impl.h"
#include "bottleneck/planner.h"
#include "gbcompress/error.h"

namespace gbcompress {

std::string_view mode_name(WeightMode mode) noexcept {
  switch (mode) {
    case WeightMode::kGenerated:
      return "generated";
    case WeightMode::kResidual:
      return "residual";
    case WeightMode::kRaw:
      return "raw";
  }
  return "";
}

std::optional<WeightMode> parse_mode(std::string_view name) noexcept {
  for (const WeightMode m : {WeightMode::kGenerated, WeightMode::kResidual, WeightMode::kRaw})
    if (mode_name(m) == name) return m;
  return std::nullopt;
}

void GenomicBottleneck::Impl::make_latents() {
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const NamedParameter& p = tensors[t];
    if (!p.trainable || !p.tied_to.empty() || !is_real(p.info.dtype) || p.info.elements() == 0 ||
        mode_of(p.info.name, options) != WeightMode::kResidual)
      continue;
    coded.push_back(t);
    latents.add(p.info.name, p.tensor);
  }
}

void GenomicBottleneck::Impl::add_rate() {
  if (coded.empty()) return;
  for (std::size_t t : coded) {
    at::Tensor& gradient = tensors[t].tensor.mutable_grad();
    if (!gradient.defined()) gradient = at::zeros_like(tensors[t].tensor.detach());
  }
  const std::int64_t step = residual_optimizer->steps();
  latents.backward(bit_price, static_cast<std::uint64_t>(step));
  for (const at::Tensor& gradient : latents.gradients())
    if (!at::isfinite(gradient.sum()).item<bool>())
      throw Error(Errc::kNonFinite, "a gradient is not finite at step " + std::to_string(step + 1) +
                                        "; lower the learning rate (residual.lr)");
}

void GenomicBottleneck::set_bit_price(double loss_per_bit) { impl_->bit_price = loss_per_bit; }
double GenomicBottleneck::bit_price() const noexcept { return impl_->bit_price; }
double GenomicBottleneck::bits() const noexcept { return impl_->latents.bits(); }
void GenomicBottleneck::expect(bool contexts) { impl_->latents.expect(contexts); }

void GenomicBottleneck::scale_steps(double factor) { impl_->latents.scale_steps(factor); }
void GenomicBottleneck::choose_integers(double lambda) { impl_->latents.choose(lambda); }

void GenomicBottleneck::quantise(double step, double evenness) {
  impl_->latents.quantise(step, evenness);
}

double GenomicBottleneck::relative_error() const { return impl_->latents.relative_error(); }

}  // namespace gbcompress
