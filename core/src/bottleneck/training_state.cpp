#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>

#include "bottleneck/impl.h"
#include "bottleneck/internals.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr const char* kSteps = "optimizer#steps";

/// What is stepped beside the g-nets: names in the order of `State`.
using Names = std::vector<std::string>;

/// visit(name, live tensor) for everything but the step counts. The moments are those of `moments`
/// and `others`, which the caller owns.
template <typename Visit>
void for_entries(const GenomicBottleneck& bottleneck, std::initializer_list<const Latents*> coded,
                 const at::Tensor& rate_entry, const AdamW::State& moments, const Names& names,
                 const AdamW::State& others, const Visit& visit) {
  std::int64_t first = 0;
  std::map<std::string, bool> generated;
  for (const auto& layer : bottleneck.layers()) {
    generated[layer.name] = true;
    visit(layer.name + "#theta", layer.theta);
  }
  // Layers lie in the buffer bank by bank; storage offsets say where.
  for (const auto& layer : bottleneck.layers()) {
    first = layer.theta.storage_offset();
    const auto part = [&](const at::Tensor& moment) {
      return moment.narrow(0, first, layer.theta.numel());
    };
    visit(layer.name + "#first_moment", part(moments.first[0]));
    visit(layer.name + "#second_moment", part(moments.second[0]));
  }
  for (const NamedParameter& p : bottleneck.tensors())
    if (p.tied_to.empty() && !generated.contains(p.info.name))
      visit(p.info.name + "#value", p.tensor);
  for (std::size_t i = 0; i < names.size(); ++i) {
    visit(names[i] + "#first_moment", others.first[i]);
    visit(names[i] + "#second_moment", others.second[i]);
  }
  bool any = false;
  for (const Latents* latents : coded) {
    const Names latent_names = latents->value_names();
    const std::vector<at::Tensor> values = latents->values(), scales = latents->scales();
    for (std::size_t i = 0; i < latent_names.size(); ++i) visit(latent_names[i], values[i]);
    for (std::size_t i = 0; i < scales.size(); ++i)
      visit(latent_names[2 * i] + "#inverse_scale", scales[i]);
    any = any || latents->size() > 0;
  }
  if (any) visit("rate#loss_per_bit", rate_entry);
}

void append(AdamW::State& to, const AdamW::State& from) {
  to.steps.insert(to.steps.end(), from.steps.begin(), from.steps.end());
  to.first.insert(to.first.end(), from.first.begin(), from.first.end());
  to.second.insert(to.second.end(), from.second.begin(), from.second.end());
}

AdamW::State part(const AdamW::State& of, std::size_t first, std::size_t count) {
  const auto range = [&](const auto& all) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
    return std::remove_cvref_t<decltype(all)>(begin, begin + static_cast<std::ptrdiff_t>(count));
  };
  return {range(of.steps), range(of.first), range(of.second)};
}

}  // namespace

std::vector<std::string> GenomicBottleneck::Impl::stepped_names() const {
  std::vector<std::string> names;
  for (const std::size_t t : plain) names.push_back(tensors[t].info.name);
  for (const IntegerPart::Coded* one : {&integers.quantized, &integers.gnets})
    for (std::string& name : one->latents.value_names()) names.push_back(std::move(name));
  return names;
}

AdamW::State GenomicBottleneck::Impl::blank_state() const {
  return {{generated.steps}, {at::zeros_like(generated.theta)}, {at::zeros_like(generated.theta)}};
}

namespace {

/// The rows of a bank in a buffer over all banks.
at::Tensor bank_rows(const at::Tensor& whole, const Bank& bank) {
  return whole.narrow(0, bank.theta.storage_offset(), bank.theta.numel()).view(bank.theta.sizes());
}

}  // namespace

AdamW::State GenomicBottleneck::Impl::whole_state() const {
  const AdamW::State own = generated.optimizer->state();
  AdamW::State whole = blank_state();
  for (const bool second : {false, true}) {
    const at::Tensor& to = (second ? whole.second : whole.first)[0];
    for (std::size_t i = 0; i < generated.pieces.size(); ++i) {
      const Piece& piece = generated.pieces[i];
      piece.of(bank_rows(to, generated.banks[piece.bank]))
          .copy_((second ? own.second : own.first)[i]);
    }
    for (std::size_t b = 0; b < generated.banks.size(); ++b)
      if (ranks.owned[b]) ranks.owned[b]->gather(bank_rows(to, generated.banks[b]));
  }
  return whole;
}

void GenomicBottleneck::Impl::restore_own(const AdamW::State& whole) {
  AdamW::State own;
  generated.steps = whole.steps[0];
  for (const Piece& piece : generated.pieces) {
    const Bank& bank = generated.banks[piece.bank];
    own.steps.push_back(whole.steps[0] - generated.delays[piece.layer]);
    own.first.push_back(piece.of(bank_rows(whole.first[0], bank)));
    own.second.push_back(piece.of(bank_rows(whole.second[0], bank)));
  }
  generated.optimizer->restore(own);
}

std::vector<StateEntry> GenomicBottleneck::training_state() const {
  const at::NoGradGuard no_grad;
  impl_->ranks.gather(impl_->generated.banks);
  impl_->gather_plain();
  const AdamW::State moments = impl_->whole_state();
  AdamW::State others = impl_->whole_plain_state();
  append(others, impl_->integers.quantized.optimizer->state());
  append(others, impl_->integers.gnets.optimizer->state());
  std::vector<StateEntry> result;
  for_entries(*this, {&impl_->integers.quantized.latents, &impl_->integers.gnets.latents},
              at::full({1}, impl_->integers.loss_per_bit, at::kDouble), moments,
              impl_->stepped_names(), others, [&](std::string name, const at::Tensor& value) {
                result.push_back({std::move(name), value.detach().clone()});
              });
  std::vector<std::int64_t> steps = moments.steps;
  steps.insert(steps.end(), others.steps.begin(), others.steps.end());
  result.push_back({kSteps, at::tensor(steps, at::kLong)});
  if (!impl_->generated.layers.empty())
    result.push_back({kGnetDelays, at::tensor(impl_->generated.delays, at::kLong)});
  return result;
}

namespace {

/// The entries of a training state, each to be of the name, shape and type that is required.
class Given {
 public:
  explicit Given(const std::vector<StateEntry>& state) {
    for (const StateEntry& entry : state) values_[entry.name] = entry.value;
  }

  const at::Tensor& value(const std::string& name) const { return values_.at(name); }
  at::Tensor require(const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
    const auto found = values_.find(name);
    if (found == values_.end())
      throw Error(Errc::kShapeMismatch,
                  "the training state lacks " + printable(name) +
                      "; it was saved from another model or with other g-nets");
    if (found->second.sizes() != sizes || found->second.scalar_type() != type)
      throw Error(Errc::kShapeMismatch, "the training state's " + printable(name) +
                                            " has another shape or type than here; it was saved "
                                            "from another model or with other g-nets");
    ++known_;
    return found->second;
  }
  void check_all_known() const {
    if (known_ != values_.size())
      throw Error(Errc::kShapeMismatch, "the training state holds " +
                                            std::to_string(values_.size()) +
                                            " entries, this model has " + std::to_string(known_));
  }

 private:
  std::map<std::string, at::Tensor> values_;
  std::size_t known_ = 0;
};

}  // namespace

void GenomicBottleneck::restore_training_state(const std::vector<StateEntry>& state) {
  const at::NoGradGuard no_grad;
  AdamW::State moments = impl_->blank_state();
  AdamW::State others = impl_->plain_optimizer->state();
  const std::size_t plain_count = others.steps.size();
  const AdamW::State quantized = impl_->integers.quantized.optimizer->state();
  append(others, quantized);
  append(others, impl_->integers.gnets.optimizer->state());
  const Names names = impl_->stepped_names();
  at::Tensor rate_entry = at::zeros({1}, at::kDouble);
  Given given(state);
  const std::int64_t counts = static_cast<std::int64_t>(moments.steps.size() + others.steps.size());
  const at::Tensor steps = given.require(kSteps, {counts}, at::kLong);
  std::vector<std::int64_t>& delays = impl_->generated.delays;
  std::vector<std::int64_t> delayed(delays.size(), 0);
  if (!delays.empty()) {
    const at::Tensor stored =
        given.require(kGnetDelays, {static_cast<std::int64_t>(delays.size())}, at::kLong)
            .contiguous();
    std::copy_n(stored.const_data_ptr<std::int64_t>(), delays.size(), delayed.begin());
  }
  const std::initializer_list<const Latents*> latents = {&impl_->integers.quantized.latents,
                                                         &impl_->integers.gnets.latents};
  for_entries(*this, latents, rate_entry, moments, names, others,
              [&](const std::string& name, const at::Tensor& to) {
                given.require(name, to.sizes(), to.scalar_type());
              });
  given.check_all_known();
  for_entries(
      *this, latents, rate_entry, moments, names, others,
      [&](const std::string& name, at::Tensor to) { to.detach().copy_(given.value(name)); });
  for (std::int64_t i = 0; i < counts; ++i) {
    const auto at = static_cast<std::size_t>(i);
    (at < moments.steps.size() ? moments.steps[at] : others.steps[at - moments.steps.size()]) =
        steps[i].item<std::int64_t>();
  }
  delays = std::move(delayed);
  impl_->restore_own(moments);
  impl_->plain_optimizer->restore(part(others, 0, plain_count));
  const std::size_t quantized_count = quantized.steps.size(),
                    before = plain_count + quantized_count;
  impl_->integers.quantized.optimizer->restore(part(others, plain_count, quantized_count));
  impl_->integers.gnets.optimizer->restore(part(others, before, others.steps.size() - before));
  impl_->integers.loss_per_bit = rate_entry.item<double>();
  impl_->integers.rate_begun = impl_->integers.loss_per_bit > 0;
  if (impl_->integers.rate_begun)
    impl_->integers.schedule.resume(impl_->integers.steps(), impl_->integers.loss_per_bit);
  impl_->enter(Phase::kTraining);
  impl_->integers.quantized.latents.forget_chosen();
  impl_->integers.gnets.latents.forget_chosen();
  impl_->integers.stream.reset();
}

}  // namespace gbcompress
