/// Associated learning: every component of a net learns from the code that an autoencoder of the
/// labels has at its height. (Kao and Chen, "Associated learning", 2021; Wu, Lin and Chen,
/// "Associated learning: an alternative to end-to-end backpropagation", ICLR 2022.)
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <gbcompress/bottleneck.h>
#include <gbcompress/launch.h>
#include <gbcompress/model.h>
#include <gbcompress/plugin.h>

#include <chrono>
#include <cmath>
#include <numbers>
#include <set>

#include "../common/stage_tensors.h"
#include "component.h"
#include "exchange.h"
#include "exits.h"
#include "workers.h"

namespace gbcompress::al {
namespace {

/// Once a process: a search makes the strategy for each attempt.
void warn_of_forms(const Forms& forms) {
  if (forms.codes != Activation::kSigmoid || forms.decoder != Activation::kNone) return;
  static const bool said = [] {
    log_line(
        "warning: strategy al: codes=sigmoid with linear outputs (decoder=none) learns slowly; use "
        "codes=tanh, or decoder=codes");
    return true;
  }();
  static_cast<void>(said);
}

class Al final : public Strategy {
 public:
  /// Bridges and autoencoders learn from the whole batch.
  std::vector<std::string> needs() const override { return {"stages", "whole-batch", "exits"}; }
  std::vector<std::string> options() const override { return option_names(); }
  void build(const StrategySetup& setup) override;
  Measurements step(const StrategyBatch& batch) override;
  std::vector<StateEntry> aux_state() const override;
  void restore(const std::vector<StateEntry>& state) override;
  std::string describe() const override;

 private:
  using Clock = std::chrono::steady_clock;

  std::map<std::string, at::Tensor> exit_parameters(std::size_t i) const;
  Item item_of(const StrategyBatch& batch) const;
  void one_by_one(Item item);
  void in_pipeline(Item item);
  void place_parameters();
  double rate_factor(std::int64_t step) const;
  /// Component `piece` on what waits for it, or, behind the last component, the readout.
  void compute(std::size_t piece);
  void read_out(const Item& item);
  void define_gradients() const;
  void refuse_shared_parameters() const;
  /// What piece `piece` trains of the model.
  std::vector<at::Tensor> parameters_of(std::size_t piece) const;
  void measure(std::map<std::string, double>& measured) const;
  /// The number of pieces: components and the readout.
  std::size_t pieces() const { return components_.size() + 1; }

  Model* model_ = nullptr;
  GenomicBottleneck* bottleneck_ = nullptr;
  Group* group_ = nullptr;  ///< null for one process
  decltype(StrategySetup::loss) loss_;
  Settings settings_;
  std::int64_t classes_ = 0, batch_ = 0;
  std::int64_t positions_ = 0;  ///< of the model's mask; 0: it has none
  std::int64_t steps_ = 0;      ///< of the run
  std::uint64_t seed_ = 0;
  double lr_factor_ = 1;  ///< of this step
  std::vector<std::unique_ptr<Component>> components_;
  /// What waits for each piece, and what came out of each in this step.
  std::vector<Item> waiting_, done_;
  std::vector<bool> idle_;  ///< pieces for which nothing waited in this step
  ReadOut read_out_;        ///< of the last batch that was read out
  std::unique_ptr<Workers> workers_;
  std::vector<double> seconds_;  ///< of each piece in the step that is measured
  /// Empty until a step was measured: until then every rank computes everything.
  mutable std::optional<Exchange> exchange_;
};

void Al::build(const StrategySetup& setup) {
  model_ = &setup.model;
  bottleneck_ = &setup.bottleneck;
  loss_ = setup.loss;
  group_ = setup.group && setup.group->world() > 1 ? setup.group : nullptr;
  batch_ = setup.batch;
  steps_ = setup.steps;
  seed_ = setup.seed;
  const std::vector<Stage>& stages = model_->stages();
  std::optional<ExitShape> exits = exit_shape(model_->arch());
  if (exits) exits->split = split_of(model_->exits());
  settings_ =
      read_settings(setup.options, stages.size(), !setup.example.is_floating_point(), exits);
  if (!setup.group || setup.group->rank() == 0) warn_of_forms(settings_.forms);
  if (settings_.pipeline && batch_ < 1)
    throw Error(Errc::kUsage,
                "strategy al: pipeline needs the number of rows of a batch; "
                "set StrategySetup::batch");
  if (settings_.lr_end != settings_.lr && steps_ < 1)
    throw Error(Errc::kUsage,
                "strategy al: lr_end needs the number of steps of the run; set "
                "StrategySetup::steps");
  model_->train(false);  // for shapes: statistics stay as they are
  const c10::NoGradGuard no_grad;
  const at::Tensor mask = model_->mask(setup.example);
  positions_ = mask.defined() ? mask.size(1) : 0;
  at::Tensor x = setup.example;
  for (const Stage& stage : stages) x = apply(stage, x, mask);
  if (x.dim() != 2)
    throw Error(Errc::kUsage,
                "strategy al needs a model with one prediction a sample, [rows, "
                "classes]");
  classes_ = x.size(1);
  auto next = stages.begin();
  x = setup.example;
  for (std::size_t i = 0; i < settings_.split.size(); ++i) {
    const std::vector<Stage> own(next, next + settings_.split[i]);
    next += settings_.split[i];
    const std::int64_t before = i == 0 ? classes_ : components_.back()->width();
    components_.push_back(std::make_unique<Component>(own, x, mask, before, settings_, i,
                                                      setup.seed, exit_parameters(i)));
    x = components_.back()->example();
  }
  refuse_shared_parameters();
  if (group_)
    for (const std::int64_t rank : settings_.placement)
      if (rank >= group_->world())
        throw Error(Errc::kUsage, "strategy al: placement names rank " + std::to_string(rank) +
                                      ", and there are " + std::to_string(group_->world()) +
                                      " ranks, numbers from 0");
  waiting_.resize(pieces());
  done_.resize(pieces());
  idle_.resize(pieces());
  seconds_.resize(pieces());
  const auto classes = static_cast<double>(classes_);  // chance, until a batch is read out
  read_out_ = {std::log(classes), {100 / classes, 100 * std::min(5.0, classes) / classes}};
  workers_ = std::make_unique<Workers>(static_cast<int>(settings_.threads));
}

/// How many weights the answer needs, and how many only training does.
std::string Al::describe() const {
  std::int64_t effective = 0, affiliate = 0;
  for (const NamedParameter& p : model_->tensors())
    if (p.trainable && p.tied_to.empty()) effective += p.tensor.numel();
  for (const auto& component : components_) affiliate += component->own_weights();
  return "al: " + std::to_string(effective) + " effective weights, those of the file, and " +
         std::to_string(affiliate) + " affiliate ones, which only training needs";
}

/// Components learn from losses of their own, on batches and ranks of their own: a parameter of two
/// of them would get the gradients of both at different times.
void Al::refuse_shared_parameters() const {
  const auto name_of = [&](std::size_t piece) {
    return piece < components_.size() ? "component " + std::to_string(piece + 1) : "the last stage";
  };
  std::map<const void*, std::size_t> holder;
  for (std::size_t piece = 0; piece < pieces(); ++piece)
    for (const at::Tensor& p : parameters_of(piece)) {
      if (p.numel() == 0) continue;
      const auto [found, added] = holder.emplace(p.const_data_ptr(), piece);
      if (added || found->second == piece) continue;
      std::string names;
      for (const NamedParameter& named : model_->tensors())
        if (named.tensor.numel() > 0 && named.tensor.const_data_ptr() == p.const_data_ptr())
          names += (names.empty() ? "" : " = ") + printable(named.info.name);
      throw Error(Errc::kUsage, "strategy al: " + name_of(found->second) + " and " +
                                    name_of(piece) + " share the parameter " + names +
                                    ", and each learns from a loss of its own; put the stages that "
                                    "share it into one component (`strategy.split`), or train "
                                    "with `strategy` backprop");
    }
}

/// Of the model's exit behind component i; none unless its architecture is "exits:...".
std::map<std::string, at::Tensor> Al::exit_parameters(std::size_t i) const {
  std::map<std::string, at::Tensor> result;
  const std::string prefix = "exit" + std::to_string(i + 1) + ".";
  if (exit_shape(model_->arch()))
    for (const NamedParameter& p : model_->tensors())
      if (p.info.name.starts_with(prefix)) result[p.info.name.substr(prefix.size())] = p.tensor;
  return result;
}

Item Al::item_of(const StrategyBatch& batch) const {
  const at::Tensor targets = batch.targets.flatten();
  const auto low = targets.min().item<std::int64_t>(), high = targets.max().item<std::int64_t>();
  if (low < 0 || high >= classes_)
    throw Error(Errc::kUsage, "strategy al: a label is " + std::to_string(low < 0 ? low : high) +
                                  "; the model has " + std::to_string(classes_) +
                                  " classes, 0 to " + std::to_string(classes_ - 1));
  const at::Tensor code = batch.teacher.defined() ? batch.teacher.softmax(-1).to(at::kFloat)
                                                  : at::one_hot(targets, classes_).to(at::kFloat);
  return {batch.inputs,  code,         batch.targets,
          batch.teacher, batch.weight, model_->mask(batch.inputs),
          batch.step,    batch.samples};
}

void Al::read_out(const Item& item) {
  const c10::AutoGradMode with_grad(true);
  StrategyBatch batch;
  batch.targets = item.targets;
  batch.teacher = item.teacher;
  const at::Tensor scores = apply(model_->stages().back(), item.signal, item.mask);
  const at::Tensor loss = loss_(scores, batch);
  const BatchAccuracy accuracy = batch_accuracy(scores, item.targets);
  // As it travels.
  read_out_ = {loss.item<float>(),
               {static_cast<float>(accuracy.top1), static_cast<float>(accuracy.top5)}};
  if (std::isfinite(read_out_.loss)) (item.weight == 1 ? loss : loss * item.weight).backward();
}

void Al::compute(std::size_t piece) {
  const Clock::time_point begin = Clock::now();
  const NoiseScope scope(seed_, waiting_[piece].step, waiting_[piece].samples);
  if (piece < components_.size())
    done_[piece] = components_[piece]->step(waiting_[piece], lr_factor_);
  else
    read_out(waiting_[piece]);
  seconds_[piece] = std::chrono::duration<double>(Clock::now() - begin).count();
}

void Al::one_by_one(Item item) {
  for (std::size_t piece = 0; piece < pieces(); ++piece) {
    waiting_[piece] = piece == 0 ? std::move(item) : done_[piece - 1];
    compute(piece);
    waiting_[piece] = {};
  }
}

void Al::in_pipeline(Item item) {
  waiting_[0] = std::move(item);
  std::vector<std::size_t> ready;
  for (std::size_t piece = 0; piece < pieces(); ++piece) idle_[piece] = !waiting_[piece].there();
  for (std::size_t piece = 0; piece < pieces(); ++piece)
    if (waiting_[piece].there() && (!exchange_ || exchange_->owns(piece))) ready.push_back(piece);
  const bool at_once = !exchange_ || settings_.threads > 1;
  if (at_once && exchange_) exchange_->arrive();
  if (at_once) workers_->run(ready.size(), [&](std::size_t i) { compute(ready[i]); });
  if (exchange_)
    exchange_->pass_on(waiting_, done_, components_, model_->stages().back(), read_out_,
                       [&](std::size_t piece) {
                         if (!at_once) compute(piece);
                       });
  const bool full = waiting_.back().there();
  for (std::size_t piece = pieces() - 1; piece > 0; --piece)
    waiting_[piece] = waiting_[piece - 1].there() ? done_[piece - 1] : Item();
  if (!group_ || !full || exchange_) return;
  std::vector<std::string> names;
  for (const auto& component : components_) names.push_back(component->stages().back().name);
  names.push_back(model_->stages().back().name);
  exchange_.emplace(*group_, names, of_first_rank(*group_, seconds_),
                    std::vector<int>(settings_.placement.begin(), settings_.placement.end()));
  place_parameters();
}

/// Each parameter, or what makes it, goes to the rank of its component; its gradient and its values
/// travel no more.
void Al::place_parameters() {
  std::map<const void*, int> owners;
  for (std::size_t piece = 0; piece < pieces(); ++piece)
    for (const at::Tensor& p : parameters_of(piece))
      owners[p.unsafeGetTensorImpl()] = exchange_->owner(piece);
  std::map<std::string, int> by_name;
  std::map<std::string, at::Tensor> tensors;
  for (const NamedParameter& p : model_->tensors())
    if (const auto found = owners.find(p.tensor.unsafeGetTensorImpl()); found != owners.end()) {
      by_name[p.info.name] = found->second;
      tensors[p.info.name] = p.tensor;
    }
  std::size_t placed = 0;
  for (const std::string& name : bottleneck_->place_with_layers(by_name))
    if (const auto found = tensors.find(name); found != tensors.end()) {
      exchange_->keep(found->second, by_name[name]);
      ++placed;
    }
  if (group_->rank() == 0 && placed > 0)
    log_line(std::to_string(placed) + " parameters are stepped where their layer is");
}

std::vector<at::Tensor> Al::parameters_of(std::size_t piece) const {
  if (piece == components_.size()) return trainable_of(model_->stages().back());
  std::vector<at::Tensor> result = components_[piece]->of_exit();
  for (const Stage& stage : components_[piece]->stages())
    for (at::Tensor& p : trainable_of(stage)) result.push_back(std::move(p));
  return result;
}

/// Parameters that their piece did not use have a gradient of zero. Those of a piece that had
/// nothing to do yet have none, so that optimizers leave them, and their step counts, as they are.
void Al::define_gradients() const {
  std::set<const void*> idle;
  for (std::size_t piece = 0; piece < pieces(); ++piece)
    if (idle_[piece])
      for (const at::Tensor& p : parameters_of(piece)) idle.insert(p.unsafeGetTensorImpl());
  for (NamedParameter& p : model_->tensors())
    if (p.trainable && p.tied_to.empty() && !p.tensor.grad().defined() &&
        !idle.contains(p.tensor.unsafeGetTensorImpl()) &&
        !(exchange_ && exchange_->keeps_elsewhere(p.tensor)))
      p.tensor.mutable_grad() = at::zeros_like(p.tensor.detach());
}

/// From lr to lr_end along half a cosine.
double Al::rate_factor(std::int64_t step) const {
  if (settings_.lr_end == settings_.lr || steps_ < 2) return 1;
  const double at =
      static_cast<double>(std::min(step, steps_ - 1)) / static_cast<double>(steps_ - 1);
  const double end = settings_.lr_end / settings_.lr;
  return end + (1 - end) * (1 + std::cos(at * std::numbers::pi)) / 2;
}

Measurements Al::step(const StrategyBatch& batch) {
  lr_factor_ = rate_factor(batch.step);
  if (settings_.pipeline)
    in_pipeline(item_of(batch));
  else
    one_by_one(item_of(batch));
  define_gradients();
  Measurements measured{read_out_.loss, {}};
  read_out_.accuracy.add_to(measured.more);
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const std::string number = std::to_string(i + 1);
    measured.more["bridge_loss." + number] = components_[i]->bridge_loss();
    measured.more["code_loss." + number] = components_[i]->code_loss();
  }
  if (settings_.exits > 0 && batch.step % settings_.exits == 0) measure(measured.more);
  return measured;
}

/// What each component's bridge would answer for the batch it has just learned from, in percent.
void Al::measure(std::map<std::string, double>& measured) const {
  const c10::NoGradGuard no_grad;
  std::vector<Item> items = done_;
  if (exchange_) {
    exchange_->share(components_);
    exchange_->share_signals(items, components_);
  }
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const Item& item = items[i];
    if (!item.there()) continue;
    at::Tensor code = components_[i]->bridge(item.signal, item.mask);
    for (std::size_t k = i + 1; k-- > 0;) code = components_[k]->decode(code);
    const at::Tensor right = code.argmax(1).eq(item.targets.flatten()).to(at::kFloat);
    measured["exit_accuracy." + std::to_string(i + 1)] = 100 * right.mean().item<double>();
  }
}

std::vector<StateEntry> Al::aux_state() const {
  // What waits for a piece is what the component before it made.
  std::vector<Item> made(waiting_.begin() + 1, waiting_.end());
  if (exchange_) {
    exchange_->share(components_);
    exchange_->share_signals(made, components_);
  }
  std::vector<StateEntry> state;
  for (std::size_t i = 0; i < components_.size(); ++i) {
    const auto own = components_[i]->state();
    for (std::size_t k = 0; k < own.size(); ++k)
      state.push_back({"component" + std::to_string(i) + "#" + std::to_string(k), own[k]});
  }
  if (!settings_.pipeline) return state;
  state.push_back({"read_out#loss", at::full({1}, read_out_.loss, at::kDouble)});
  for (std::size_t i = 1; i < pieces(); ++i) {
    const std::string name = "waiting" + std::to_string(i) + "#";
    const auto stored = pack(made[i - 1], components_[i - 1]->example(),
                             components_[i - 1]->width(), classes_, batch_, positions_);
    for (std::size_t k = 0; k < stored.size(); ++k)
      state.push_back({name + std::to_string(k), stored[k]});
  }
  return state;
}

void Al::restore(const std::vector<StateEntry>& state) {
  std::size_t at = 0;
  const auto take = [&](std::size_t count) {
    std::vector<at::Tensor> values;
    for (; count > 0; --count) values.push_back(state.at(at++).value);
    return values;
  };
  for (const auto& component : components_) component->restore(take(component->state().size()));
  if (!settings_.pipeline) return;
  read_out_ = {take(1)[0].item<double>()};
  for (std::size_t i = 1; i < pieces(); ++i)
    waiting_[i] = unpack(take(packed_tensors(positions_)), components_.front()->example().device());
}

}  // namespace
}  // namespace gbcompress::al

GBC_PLUGIN("al", GBC_VERSION_STRING, [](gbcompress::Registrar& registrar) {
  registrar.register_strategy("al", [] { return std::make_unique<gbcompress::al::Al>(); });
  registrar.register_model("exits", gbcompress::al::with_exits);
})
