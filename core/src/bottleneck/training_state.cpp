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

std::vector<GenomicBottleneck::StateEntry> GenomicBottleneck::training_state() const {
  const at::NoGradGuard no_grad;
  const AdamW::State gnets = impl_->gnet_optimizer->state();
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
  AdamW::State gnets = impl_->gnet_optimizer->state();
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
  impl_->gnet_optimizer->restore(gnets);
  impl_->plain_optimizer->restore(plain);
}

}  // namespace gbcompress
