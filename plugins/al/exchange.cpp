#include "exchange.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "../common/stage_tensors.h"

namespace gbcompress::al {
namespace {

/// Tensors in one buffer of floats, and back into where they came from. Counters of batches are
/// exact up to 2^24.
class Flat {
 public:
  void add(const at::Tensor& tensor) { parts_.push_back(tensor); }
  at::Tensor gathered() const {
    std::vector<at::Tensor> flat;
    for (const at::Tensor& part : parts_) flat.push_back(part.detach().to(at::kFloat).flatten());
    return at::cat(flat);
  }
  void scatter(const at::Tensor& all) {
    std::int64_t at = 0;
    for (at::Tensor& part : parts_) {
      part.detach().copy_(all.narrow(0, at, part.numel()).view(part.sizes()));
      at += part.numel();
    }
  }

 private:
  std::vector<at::Tensor> parts_;
};

void add_gradients(Flat& flat, const std::vector<at::Tensor>& parameters) {
  for (const at::Tensor& p : parameters) {
    if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p.detach());
    flat.add(p.mutable_grad());
  }
}

void add_stage(Flat& flat, const Stage& stage) {
  add_gradients(flat, trainable_of(stage));
  for (const at::Tensor& buffer : buffers_of(stage)) flat.add(buffer);
}

}  // namespace

Exchange::Exchange(Group& group, const std::vector<std::string>& names,
                   const std::vector<double>& costs)
    : group_(group), owner_(balance(costs, group.world())) {
  if (group.rank() != 0) return;
  std::vector<double> load(static_cast<std::size_t>(group.world()), 0);
  for (std::size_t i = 0; i < costs.size(); ++i)
    load[static_cast<std::size_t>(owner_[i])] += costs[i];
  tell("components", names, owner_, costs, *std::max_element(load.begin(), load.end()),
       group.world());
}

void Exchange::pass_on(const std::vector<Item>& waiting, std::vector<Item>& done,
                       const std::vector<std::unique_ptr<Component>>& components,
                       const Stage& readout, double& read_out_loss) const {
  const c10::NoGradGuard no_grad;
  struct Sent {
    Flat flat;
    at::Tensor buffer, losses;
    Pending pending;
  };
  std::vector<Sent> all(owner_.size());
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (!waiting[i].there()) continue;
    Sent& sent = all[i];
    const bool component = i < components.size();
    sent.losses = at::zeros({2}, at::kFloat);
    if (component) {
      if (owns(i)) {
        sent.losses[0] = components[i]->bridge_loss();
        sent.losses[1] = components[i]->code_loss();
      } else {
        std::vector<std::int64_t> shape = components[i]->example().sizes().vec();
        shape[0] = waiting[i].signal.size(0);
        done[i] = {at::empty(shape, at::kFloat),
                   at::empty({shape[0], components[i]->width()}, at::kFloat), waiting[i].targets,
                   waiting[i].teacher, waiting[i].weight};
      }
      sent.flat.add(done[i].signal);
      sent.flat.add(done[i].code);
      for (const Stage& stage : components[i]->stages()) add_stage(sent.flat, stage);
      add_gradients(sent.flat, components[i]->of_exit());
    } else {
      if (owns(i)) sent.losses[0] = read_out_loss;
      add_stage(sent.flat, readout);
    }
    sent.flat.add(sent.losses);
    sent.buffer = sent.flat.gathered();
    sent.pending = group_.broadcast(sent.buffer, owner_[i]);
  }
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (!waiting[i].there()) continue;
    all[i].pending.wait();
    if (owns(i)) continue;
    all[i].flat.scatter(all[i].buffer);
    if (i < components.size())
      components[i]->set_losses(all[i].losses[0].item<float>(), all[i].losses[1].item<float>());
    else
      read_out_loss = all[i].losses[0].item<float>();
  }
}

void Exchange::share(const std::vector<std::unique_ptr<Component>>& components) const {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < components.size(); ++i) {
    std::vector<at::Tensor> state = components[i]->state();
    for (at::Tensor& value : state) group_.broadcast(value, owner_[i]).wait();
    if (!owns(i)) components[i]->restore(state);
  }
}

std::vector<at::Tensor> pack(const Item& item, const at::Tensor& example, std::int64_t width,
                             std::int64_t classes, std::int64_t rows) {
  std::vector<std::int64_t> shape = example.sizes().vec();
  shape[0] = rows;
  std::vector<at::Tensor> packed = {
      at::zeros(shape, at::kFloat), at::zeros({rows, width}, at::kFloat),
      at::zeros({rows}, at::kLong), at::zeros({rows, classes}, at::kFloat),
      at::zeros({3}, at::kDouble)};
  if (!item.there()) return packed;
  const std::int64_t count = item.signal.size(0);
  packed[0].narrow(0, 0, count).copy_(item.signal);
  packed[1].narrow(0, 0, count).copy_(item.code);
  packed[2].narrow(0, 0, count).copy_(item.targets.flatten());
  if (item.teacher.defined()) packed[3].narrow(0, 0, count).copy_(item.teacher);
  packed[4][0] = count;
  packed[4][1] = item.teacher.defined() ? 1 : 0;
  packed[4][2] = item.weight;
  return packed;
}

Item unpack(const std::vector<at::Tensor>& packed) {
  const auto count = static_cast<std::int64_t>(packed.at(4)[0].item<double>());
  if (count == 0) return {};
  const auto rows = [&](std::size_t i) { return packed.at(i).narrow(0, 0, count).clone(); };
  Item item{rows(0), rows(1), rows(2), {}, packed[4][2].item<double>()};
  if (packed[4][1].item<double>() != 0) item.teacher = rows(3);
  return item;
}

}  // namespace gbcompress::al
