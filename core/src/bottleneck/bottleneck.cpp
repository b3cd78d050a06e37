#include "gbcompress/bottleneck.h"

#include <ATen/ATen.h>
#include <torch/nn/module.h>

#include <algorithm>

#include "bottleneck/impl.h"
#include "bottleneck/sized_gnets.h"
#include "cuda/make_kernel.h"
#include "gbcompress/error.h"
#include "ranks/collectives/average.h"

namespace gbcompress {
namespace {

std::unique_ptr<TileKernel> make_kernel(const std::string& name) {
  if (name == "fused") return make_fused_kernel();
  if (name == "reference") return make_reference_kernel();
  if (name == "cuda") return make_cuda_kernel();
  throw Error(Errc::kUsage,
              "kernel " + printable(name) + " is not known; use fused, cuda or reference");
}

std::vector<const void*> identities_of(const torch::nn::Module& module) {
  std::vector<const void*> result;
  for (const at::Tensor& tensor : module.parameters())
    result.push_back(tensor.unsafeGetTensorImpl());
  for (const at::Tensor& tensor : module.buffers()) result.push_back(tensor.unsafeGetTensorImpl());
  return result;
}

}  // namespace

GenomicBottleneck::Impl::Impl(std::vector<NamedParameter> all, const Registry& known,
                              const BottleneckOptions& chosen, Group* group)
    : options(with_recipe(all, known, chosen)),
      tensors(std::move(all)),
      generated(make_kernel(options.kernel)),
      integers(options),
      ranks(group) {
  for (const NamedParameter& p : tensors) this->types.push_back(p.tensor.scalar_type());
  if (!tensors.empty()) device = tensors.front().tensor.device();
  check_tensors();
  generated.assign(tensors, known, options);
  make_latents();
  place();
  make_optimizers();
}

void GenomicBottleneck::Impl::make_gnet_optimizer() {
  std::vector<at::Tensor> own;
  generated.pieces.clear();
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    const OwnRows rows = own_rows(b);
    for (const std::size_t l : generated.banks[b].layers) {
      const std::int64_t begin = generated.routes[l].first;
      const std::int64_t first = std::max(begin, rows.first);
      const std::int64_t last =
          std::min(begin + generated.layers[l].theta.size(0), rows.first + rows.count);
      if (first >= last) continue;
      generated.pieces.push_back({b, l, first, last - first});
      own.push_back(generated.pieces.back().of(generated.banks[b].theta));
    }
  }
  generated.optimizer = std::make_unique<AdamW>(std::move(own), options.gnet_optimizer);
}

void GenomicBottleneck::Impl::find_idle(bool may_be) {
  const bool before = generated.any_idle();
  for (std::size_t l = 0; l < generated.layers.size(); ++l)
    generated.idle[l] =
        may_be && !ranks.with_layers && !generated.layers[l].weights.grad().defined();
  if (integers.of_gnets && (before || generated.any_idle())) connect_gnet_latents();
}

void GenomicBottleneck::Impl::make_optimizers() {
  make_gnet_optimizer();
  generated.steps = 0;
  generated.idle.assign(generated.layers.size(), false);
  generated.delays.assign(generated.layers.size(), 0);
  std::vector<bool> elsewhere(tensors.size(), false);
  for (const Route& route : generated.routes) elsewhere[route.tensor] = true;
  for (const std::size_t t : integers.tensors) elsewhere[t] = true;
  plain.clear();
  std::vector<at::Tensor> values;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    if (elsewhere[t] || !tensors[t].trainable || !tensors[t].tied_to.empty()) continue;
    plain.push_back(t);
    values.push_back(tensors[t].tensor);
  }
  plain_optimizer = std::make_unique<AdamW>(std::move(values), options.plain_optimizer);
  integers.quantized.make_optimizer(options.quantized_optimizer);
  integers.gnets.make_optimizer(options.gnet_optimizer);
}

void GenomicBottleneck::Impl::check_tensors() const {
  if (module && identities_of(*module) != identities)
    throw Error(Errc::kUsage,
                "the module's parameters or buffers are others than those its bottleneck was made "
                "with; replace, add or remove them before the bottleneck is made");
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const NamedParameter& p = tensors[t];
    if (p.tensor.sizes() != at::IntArrayRef(p.info.shape) || p.tensor.device() != device ||
        p.tensor.scalar_type() != types[t])
      throw Error(Errc::kUsage,
                  printable(p.info.name) +
                      " has changed its shape, element type or device since the bottleneck was "
                      "made; change the module before the bottleneck is made");
  }
}

GenomicBottleneck::GenomicBottleneck(torch::nn::Module& module, const Registry& types,
                                     const BottleneckOptions& options, Group* group)
    : GenomicBottleneck(named_parameters(module), types, options, group) {
  impl_->module = &module;
  impl_->identities = identities_of(module);
}
GenomicBottleneck::GenomicBottleneck(std::vector<NamedParameter> tensors, const Registry& types,
                                     const BottleneckOptions& options, Group* group)
    : impl_(std::make_unique<Impl>(std::move(tensors), types, options, group)) {}
GenomicBottleneck::~GenomicBottleneck() = default;
GenomicBottleneck::GenomicBottleneck(GenomicBottleneck&&) noexcept = default;

void GenomicBottleneck::zero_grad() {
  impl_->generated.grad.zero_();
  for (NamedParameter& p : impl_->tensors)
    if (p.trainable) p.tensor.mutable_grad().reset();
}

void GenomicBottleneck::predict_weights() {
  impl_->check_tensors();
  impl_->gather_plain();
  impl_->predict();
}

void GenomicBottleneck::backward(Gradients gradients) {
  if (impl_->finished())
    throw Error(Errc::kUsage,
                "finish() has chosen the stored values; call restart() to continue training");
  impl_->find_idle(gradients == Gradients::kSame);
  if (gradients == Gradients::kAlike) {
    impl_->backward_own_tiles();
  } else if (gradients == Gradients::kSame) {
    impl_->begin_rate();
    impl_->add_quantized_rate(/*idle_stay=*/true);
    impl_->backward_own_tiles();
  } else {
    impl_->begin_rate();
    impl_->backward();
  }
  impl_->has_gradients = true;
}

void GenomicBottleneck::Impl::backward() {
  std::optional<Average> plain_average;
  std::vector<Pending> sums;
  const float average = ranks.group ? 1.0f / static_cast<float>(ranks.group->world()) : 1.0f;
  if (ranks.group) {
    // Batch-norm statistics too: with them the same everywhere after each step, whatever is saved
    // is the state of every rank.
    std::vector<at::Tensor> shared = carried_gradients();
    for (at::Tensor& buffer : float_buffers()) shared.push_back(buffer);
    plain_average.emplace(*ranks.group, std::move(shared));
  }
  for (std::size_t b = 0; b < generated.banks.size(); ++b) {
    Bank& bank = generated.banks[b];
    std::vector<at::Tensor> alive;
    if (ranks.owned[b]) {
      ranks.owned[b]->backward(*generated.kernel, span_of(bank.theta), sources(b, 1, alive),
                               span_of(bank.grad));
      continue;
    }
    generated.kernel->backward(bank.shape, span_of(bank.theta), sources(b, average, alive),
                               span_of(bank.grad));
    // Travels while the next bank is computed.
    if (ranks.group) sums.push_back(ranks.group->all_reduce(bank.grad.view(-1)));
  }
  for (Pending& sum : sums) sum.wait();
  if (plain_average) plain_average->finish();
  add_quantized_rate();
  add_gnet_rate();
  for (std::size_t b = 0; b < generated.banks.size(); ++b) generated.check_finite(b);
}

void GenomicBottleneck::step(double lr_factor) {
  if (!impl_->has_gradients)
    throw Error(Errc::kUsage,
                "step() needs the gradients of this step: call backward() once before each step()");
  impl_->step(lr_factor);
  impl_->enter(Phase::kTraining);
  if (impl_->integers.rate_begun) impl_->set_rate(impl_->integers.steps());
}

double GenomicBottleneck::Impl::schedule_now() const {
  if (!options.schedule || options.steps < 1) return 1;
  const std::int64_t done = integers.of_gnets ? integers.steps() : generated.steps;
  return schedule_factor(*options.schedule, std::min(done, options.steps - 1), options.steps);
}

void GenomicBottleneck::Impl::step(double lr_factor) {
  lr_factor *= schedule_now();
  integers.stream.reset();
  step_gnets(lr_factor);
  std::vector<at::Tensor> gradients;
  for (std::size_t t : plain) gradients.push_back(tensors[t].tensor.grad());
  for (std::size_t i = 0; i < ranks.plain.size(); ++i)
    if (ranks.plain[i] >= 0 && ranks.plain[i] != ranks.group->rank()) gradients[i] = at::Tensor();
  plain_optimizer->step(gradients, lr_factor);
  integers.quantized.step(lr_factor);
  integers.gnets.step(lr_factor);
}

void GenomicBottleneck::Impl::step_gnets(double lr_factor) {
  if (integers.of_gnets || generated.layers.empty()) return;
  ++generated.steps;
  for (std::size_t l = 0; l < generated.layers.size(); ++l)
    generated.delays[l] += generated.idle[l] ? 1 : 0;
  std::vector<at::Tensor> own;
  for (const Piece& piece : generated.pieces)
    own.push_back(generated.idle[piece.layer] ? at::Tensor()
                                              : piece.of(generated.banks[piece.bank].grad));
  generated.optimizer->step(own, lr_factor);
}

void GenomicBottleneck::finish() {
  if (impl_->finished())
    throw Error(Errc::kUsage,
                "finish() was called before: save() writes the file, restart() trains on");
  impl_->check_tensors();
  impl_->ranks.gather(impl_->generated.banks);
  impl_->gather_plain();
  impl_->round_gnets();
  impl_->round_plain();
  impl_->enter(Phase::kExact);
  impl_->predict();
  const auto& max_bytes = impl_->options.rate.max_bytes;
  if (max_bytes && impl_->integers.any() && !impl_->integers.chosen()) impl_->fit_size(*max_bytes);
  impl_->predict();
  impl_->enter(Phase::kFinished);
}

void GenomicBottleneck::restart(const std::optional<RateOptions>& rate) {
  impl_->integers.schedule = RateSchedule(rate.value_or(impl_->options.rate));
  if (rate) impl_->options.rate = *rate;
  impl_->make_optimizers();
  // Else the next finish() would keep them, whatever the target size.
  if (impl_->finished()) impl_->integers.forget_chosen();
  impl_->integers.loss_per_bit = 0;
  impl_->integers.rate_begun = false;
  impl_->enter(Phase::kTraining);
}

void GenomicBottleneck::train(bool on) { impl_->training = on; }

const std::vector<GeneratedLayer>& GenomicBottleneck::layers() const {
  return impl_->generated.layers;
}
const std::vector<NamedParameter>& GenomicBottleneck::tensors() const { return impl_->tensors; }

}  // namespace gbcompress
