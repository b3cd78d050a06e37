#include <ATen/ATen.h>

#include <map>

#include "base/file.h"
#include "bottleneck/impl.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

constexpr const char* kSteps = "optimizer#steps";

/// visit(name, live tensor) for everything but the step counts. The moments are those of `gnets`
/// and `plain`, which the caller owns.
template <typename Visit>
void for_entries(const GenomicBottleneck& bottleneck, const std::vector<std::size_t>& plain_of,
                 const AdamW::State& gnets, const AdamW::State& plain, const Visit& visit) {
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
    visit(layer.name + "#first_moment", part(gnets.first[0]));
    visit(layer.name + "#second_moment", part(gnets.second[0]));
  }
  for (const NamedParameter& p : bottleneck.tensors())
    if (p.tied_to.empty() && !generated.contains(p.info.name))
      visit(p.info.name + "#value", p.tensor);
  for (std::size_t i = 0; i < plain_of.size(); ++i) {
    const std::string& name = bottleneck.tensors()[plain_of[i]].info.name;
    visit(name + "#first_moment", plain.first[i]);
    visit(name + "#second_moment", plain.second[i]);
  }
}

}  // namespace

AdamW::State GenomicBottleneck::Impl::blank_state() const {
  return {{gnet_optimizer->steps()}, {at::zeros_like(theta)}, {at::zeros_like(theta)}};
}

AdamW::State GenomicBottleneck::Impl::whole_state() const {
  const AdamW::State own = gnet_optimizer->state();
  AdamW::State whole = blank_state();
  for (std::size_t b = 0; b < banks.size(); ++b)
    for (const bool second : {false, true}) {
      at::Tensor rows = (second ? whole.second : whole.first)[0]
                            .narrow(0, banks[b].theta.storage_offset(), banks[b].theta.numel())
                            .view(banks[b].theta.sizes());
      const at::Tensor& part = (second ? own.second : own.first)[b];
      if (!owned[b]) {
        rows.copy_(part);
        continue;
      }
      rows.narrow(0, owned[b]->first(), owned[b]->count()).copy_(part);
      owned[b]->gather(rows);
    }
  return whole;
}

void GenomicBottleneck::Impl::restore_own(const AdamW::State& whole) {
  AdamW::State own;
  for (std::size_t b = 0; b < banks.size(); ++b) {
    own.steps.push_back(whole.steps[0]);
    for (const bool second : {false, true}) {
      const at::Tensor rows =
          (second ? whole.second : whole.first)[0]
              .narrow(0, banks[b].theta.storage_offset(), banks[b].theta.numel())
              .view(banks[b].theta.sizes());
      (second ? own.second : own.first)
          .push_back(owned[b] ? rows.narrow(0, owned[b]->first(), owned[b]->count()) : rows);
    }
  }
  gnet_optimizer->restore(own);
}

std::vector<GenomicBottleneck::StateEntry> GenomicBottleneck::training_state() const {
  const at::NoGradGuard no_grad;
  for (std::size_t b = 0; b < impl_->banks.size(); ++b)
    if (impl_->owned[b]) impl_->owned[b]->gather(impl_->banks[b].theta);
  const AdamW::State gnets = impl_->whole_state();
  const AdamW::State plain = impl_->plain_optimizer->state();
  std::vector<StateEntry> result;
  for_entries(*this, impl_->plain, gnets, plain, [&](std::string name, const at::Tensor& value) {
    result.push_back({std::move(name), value.detach().clone()});
  });
  std::vector<std::int64_t> steps = gnets.steps;
  steps.insert(steps.end(), plain.steps.begin(), plain.steps.end());
  result.push_back({kSteps, at::tensor(steps, at::kLong)});
  return result;
}

void GenomicBottleneck::restore_training_state(const std::vector<StateEntry>& state) {
  const at::NoGradGuard no_grad;
  AdamW::State gnets = impl_->blank_state();
  AdamW::State plain = impl_->plain_optimizer->state();
  std::map<std::string, at::Tensor> given;
  for (const StateEntry& entry : state) given[entry.name] = entry.value;
  std::size_t known = 0;
  const auto require = [&](const std::string& name, at::IntArrayRef sizes, at::ScalarType type) {
    const auto found = given.find(name);
    if (found == given.end())
      throw Error(Errc::kShapeMismatch, "the training state lacks " + printable(name) +
                                            "; it was saved from another model or plan");
    if (found->second.sizes() != sizes || found->second.scalar_type() != type)
      throw Error(Errc::kShapeMismatch, "the training state's " + printable(name) +
                                            " has another shape or type than here; it was saved "
                                            "from another model or plan");
    ++known;
    return found->second;
  };
  const std::int64_t counts = static_cast<std::int64_t>(gnets.steps.size() + plain.steps.size());
  const at::Tensor steps = require(kSteps, {counts}, at::kLong);
  for_entries(*this, impl_->plain, gnets, plain,
              [&](const std::string& name, const at::Tensor& to) {
                require(name, to.sizes(), to.scalar_type());
              });
  if (known != given.size())
    throw Error(Errc::kShapeMismatch, "the training state holds " + std::to_string(given.size()) +
                                          " entries, this model has " + std::to_string(known));

  for_entries(*this, impl_->plain, gnets, plain,
              [&](const std::string& name, at::Tensor to) { to.detach().copy_(given[name]); });
  for (std::int64_t i = 0; i < counts; ++i) {
    const auto at = static_cast<std::size_t>(i);
    (at < gnets.steps.size() ? gnets.steps[at] : plain.steps[at - gnets.steps.size()]) =
        steps[i].item<std::int64_t>();
  }
  impl_->restore_own(gnets);
  impl_->plain_optimizer->restore(plain);
}

}  // namespace gbcompress
