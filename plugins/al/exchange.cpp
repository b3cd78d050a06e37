#include "exchange.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/error.h>

#include <algorithm>
#include <exception>

#include "../common/stage_tensors.h"

namespace gbcompress::al {
namespace {

/// Tensors in one buffer of floats, and back into where they came from. Counters of batches are
/// exact up to 2^24.
class Flat {
 public:
  void add(const at::Tensor& tensor) { parts_.push_back(tensor); }
  bool empty() const { return parts_.empty(); }
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

/// Of a signal that another rank makes.
at::Tensor empty_signal(const Component& component, const Item& item) {
  std::vector<std::int64_t> shape = component.example().sizes().vec();
  shape[0] = item.targets.size(0);
  return at::empty(
      shape,
      component.example().options().dtype(at::kFloat).memory_format(signal_layout(shape.size())));
}

/// The numbers of a signal as they lie in memory.
at::Tensor in_memory_order(const at::Tensor& signal) {
  return signal.dim() == 4 ? signal.permute({0, 2, 3, 1}) : signal;
}

}  // namespace

Exchange::Exchange(Group& group, const std::vector<std::string>& names,
                   const std::vector<double>& costs, std::vector<int> owner)
    : group_(group),
      owner_(owner.empty() ? balance(costs, group.world()) : std::move(owner)),
      signals_(costs.size()) {
  if (group.rank() != 0) return;
  std::vector<double> load(static_cast<std::size_t>(group.world()), 0);
  for (std::size_t i = 0; i < costs.size(); ++i)
    load[static_cast<std::size_t>(owner_[i])] += costs[i];
  tell("components", names, owner_, costs, *std::max_element(load.begin(), load.end()),
       group.world());
}

void Exchange::keep(const at::Tensor& parameter, int rank) {
  kept_[parameter.unsafeGetTensorImpl()] = rank;
}

bool Exchange::keeps(const at::Tensor& parameter) const {
  return kept_.contains(parameter.unsafeGetTensorImpl());
}

bool Exchange::keeps_elsewhere(const at::Tensor& parameter) const {
  const auto found = kept_.find(parameter.unsafeGetTensorImpl());
  return found != kept_.end() && found->second != group_.rank();
}

Exchange::~Exchange() {
  if (std::uncaught_exceptions() > 0) return;  // this rank fails, and the others must hear of it
  try {
    arrive();
  } catch (const Error&) {  // whoever waits for a rank that failed hears of it
  }
}

void Exchange::arrive() const {
  for (Pending& signal : signals_) signal.wait();
}

void Exchange::pass_on(const std::vector<Item>& waiting, std::vector<Item>& done,
                       const Components& components, const Stage& readout, ReadOut& read_out,
                       const std::function<void(std::size_t)>& compute) const {
  const auto add_gradients = [&](Flat& flat, const std::vector<at::Tensor>& parameters) {
    for (const at::Tensor& p : parameters) {
      if (keeps(p)) continue;
      if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p.detach());
      flat.add(p.mutable_grad());
    }
  };
  const auto add_stage = [&](Flat& flat, const Stage& stage) {
    add_gradients(flat, trainable_of(stage));
    for (const at::Tensor& buffer : buffers_of(stage)) flat.add(buffer);
  };
  std::vector<Flat> of_rank(static_cast<std::size_t>(group_.world()));
  const at::TensorOptions where = components.front()->example().options().dtype(at::kFloat);
  at::Tensor losses = at::zeros({static_cast<std::int64_t>(owner_.size()), 3}, where);
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (!waiting[i].there()) continue;
    if (owns(i)) compute(i);
    const c10::NoGradGuard no_grad;
    const at::Tensor loss = losses[static_cast<std::int64_t>(i)];
    Flat& flat = of_rank[static_cast<std::size_t>(owner_[i])];
    if (i < components.size()) {
      const bool travels = owner_[i + 1] != owner_[i];
      if (owns(i)) {
        loss[0] = components[i]->bridge_loss();
        loss[1] = components[i]->code_loss();
      } else {
        done[i] = waiting[i];
        done[i].signal = owns(i + 1) ? empty_signal(*components[i], waiting[i]) : at::Tensor();
        done[i].code = at::empty({waiting[i].targets.size(0), components[i]->width()}, where);
      }
      if (travels) {
        signals_[i].wait();  // the last step's, which the next component needs now
        if (owns(i))
          signals_[i] = group_.send(in_memory_order(done[i].signal), owner_[i + 1]);
        else if (owns(i + 1))
          signals_[i] = group_.receive(in_memory_order(done[i].signal), owner_[i]);
      }
      flat.add(done[i].code);
      for (const Stage& stage : components[i]->stages()) add_stage(flat, stage);
      add_gradients(flat, components[i]->of_exit());
    } else {
      if (owns(i)) {
        loss[0] = read_out.loss;
        loss[1] = read_out.accuracy.top1;
        loss[2] = read_out.accuracy.top5;
      }
      add_stage(flat, readout);
    }
    flat.add(loss);
  }
  const c10::NoGradGuard no_grad;
  std::vector<at::Tensor> buffers(of_rank.size());
  std::vector<Pending> pending(of_rank.size());
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    if (of_rank[r].empty()) continue;
    buffers[r] = of_rank[r].gathered();
    pending[r] = group_.broadcast(buffers[r], static_cast<int>(r));
  }
  for (std::size_t r = 0; r < of_rank.size(); ++r) {
    pending[r].wait();
    if (buffers[r].defined() && static_cast<int>(r) != group_.rank())
      of_rank[r].scatter(buffers[r]);
  }
  for (std::size_t i = 0; i < owner_.size(); ++i) {
    if (!waiting[i].there() || owns(i)) continue;
    const at::Tensor loss = losses[static_cast<std::int64_t>(i)];
    if (i < components.size())
      components[i]->set_losses(loss[0].item<float>(), loss[1].item<float>());
    else
      read_out = {loss[0].item<float>(), {loss[1].item<float>(), loss[2].item<float>()}};
  }
}

void Exchange::share(const Components& components) const {
  const c10::NoGradGuard no_grad;
  for (std::size_t i = 0; i < components.size(); ++i) {
    std::vector<at::Tensor> state = components[i]->state();
    for (at::Tensor& value : state) group_.broadcast(value, owner_[i]).wait();
    if (!owns(i)) components[i]->restore(state);
    for (const at::Tensor& p : components[i]->of_exit())
      if (keeps(p)) group_.broadcast(p.detach(), owner_[i]).wait();
  }
}

void Exchange::share_signals(std::vector<Item>& items, const Components& components) const {
  arrive();
  for (std::size_t i = 0; i < components.size(); ++i) {
    if (!items[i].there()) continue;
    if (!owns(i)) items[i].signal = empty_signal(*components[i], items[i]);
    group_.broadcast(in_memory_order(items[i].signal), owner_[i]).wait();
  }
}

std::vector<at::Tensor> pack(const Item& item, const at::Tensor& example, std::int64_t width,
                             std::int64_t classes, std::int64_t rows, std::int64_t positions) {
  std::vector<std::int64_t> shape = example.sizes().vec();
  shape[0] = rows;
  std::vector<at::Tensor> packed = {
      at::zeros(shape, at::kFloat), at::zeros({rows, width}, at::kFloat),
      at::zeros({rows}, at::kLong), at::zeros({rows, classes}, at::kFloat),
      at::zeros({4}, at::kDouble),  at::zeros({rows}, at::kLong)};
  if (positions > 0) packed.push_back(at::zeros({rows, positions}, at::kByte));
  if (!item.there()) return packed;
  const std::int64_t count = item.targets.size(0);
  packed[0].narrow(0, 0, count).copy_(item.signal);
  packed[1].narrow(0, 0, count).copy_(item.code);
  packed[2].narrow(0, 0, count).copy_(item.targets.flatten());
  if (item.teacher.defined()) packed[3].narrow(0, 0, count).copy_(item.teacher);
  packed[4][0] = count;
  packed[4][1] = item.teacher.defined() ? 1 : 0;
  packed[4][2] = item.weight;
  packed[4][3] = static_cast<double>(item.step);
  packed[5].narrow(0, 0, count).copy_(at::tensor(item.samples, at::kLong));
  if (positions > 0) packed[6].narrow(0, 0, count).copy_(item.mask);
  return packed;
}

Item unpack(const std::vector<at::Tensor>& packed, at::Device device) {
  const auto count = static_cast<std::int64_t>(packed.at(4)[0].item<double>());
  if (count == 0) return {};
  const auto rows = [&](std::size_t i) {
    return packed.at(i).narrow(0, 0, count).clone().to(device);
  };
  Item item{laid_out(rows(0)), rows(1), rows(2), {}, packed[4][2].item<double>(), {}};
  if (packed[4][1].item<double>() != 0) item.teacher = rows(3);
  item.step = static_cast<std::int64_t>(packed[4][3].item<double>());
  const at::Tensor samples = rows(5).to(at::kCPU);
  const auto* first = samples.const_data_ptr<std::int64_t>();
  item.samples.assign(first, first + count);
  if (packed.size() > 6) item.mask = rows(6).to(at::kBool);
  return item;
}

}  // namespace gbcompress::al
