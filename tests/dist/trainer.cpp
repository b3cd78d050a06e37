// One rank of a small training, for what the command line does not show:
//   gbc_dist_trainer --timeout S SCENARIO OUT [ARGUMENTS]      rank and world from the environment
//   gradient OUT PLACEMENT   weights, then all gradients of one step on a batch of 64, as float32
//   owners OUT PLACEMENT     who has each layer's g-nets, and describe(), as text a rank: OUT.RANK
//   traffic OUT PLACEMENT    bytes sent in three steps, and what the formulas say, as text
//   drift OUT STEP           training in which the gradient of rank 1 differs from STEP on
//   pipeline OUT OPTIONS     the bits of "al" in a pipeline beside those of one batch after another
#include <torch/torch.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/ranks.h"
#include "gbcompress/strategy.h"
#include "gbcompress/train.h"

namespace gbcompress {
namespace {

struct NetImpl : torch::nn::Module {
  NetImpl()
      : conv(register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(3, 20, 3)))),
        hidden(register_module("hidden", torch::nn::Linear(20 * 36, 90))),
        last(register_module("last", torch::nn::Linear(90, 7))) {}
  torch::Tensor forward(const torch::Tensor& x) {
    return last(torch::relu(hidden(torch::relu(conv(x)).flatten(1))));
  }
  torch::nn::Conv2d conv;
  torch::nn::Linear hidden, last;
};
TORCH_MODULE(Net);

/// One of placement_name(). @throws std::runtime_error
Placement placement_of(const std::string& name) {
  for (const Placement each : {Placement::kAuto, Placement::kOwner, Placement::kReplicated})
    if (placement_name(each) == name) return each;
  throw std::runtime_error("no placement is called " + name);
}

BottleneckOptions options_of(const std::string& placement) {
  BottleneckOptions options;
  options.min_elements = 500;
  options.gnet.tile_weights = 900;
  options.gnet.hidden = {8};
  options.seed = 3;
  options.placement = placement_of(placement);
  return options;
}

void write(std::ofstream& out, const at::Tensor& values) {
  const at::Tensor floats = values.detach().to(torch::kFloat).contiguous();
  out.write(static_cast<const char*>(floats.data_ptr()),
            static_cast<std::streamsize>(floats.nbytes()));
}

/// This rank's part of a batch of 64; the mean over ranks of the mean losses is the batch's.
void one_step(Net& net, GenomicBottleneck& bottleneck, Group& group, int step) {
  torch::manual_seed(50 + step);
  const auto x = torch::randn({64, 3, 8, 8}), y = torch::randint(7, {64});
  const std::int64_t rows = 64 / group.world(), first = rows * group.rank();
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  torch::nn::functional::cross_entropy(net->forward(x.narrow(0, first, rows)),
                                       y.narrow(0, first, rows))
      .backward();
  bottleneck.backward();
}

void gradient(Net& net, GenomicBottleneck& bottleneck, Group& group, const std::string& path) {
  one_step(net, bottleneck, group, 0);
  std::vector<at::Tensor> results;
  for (const auto& layer : bottleneck.layers()) results.push_back(layer.weights.clone());
  for (const auto& layer : bottleneck.layers()) {
    // A row is there on its owner alone, or on every rank.
    at::Tensor grad = layer.grad.clone();
    at::Tensor ranks = grad.abs().sum(1, /*keepdim=*/true).gt(0).to(torch::kFloat);
    group.all_reduce(grad).wait();
    group.all_reduce(ranks).wait();
    grad = grad / ranks.clamp_min(1);
    results.push_back(grad);
  }
  for (const auto& p : bottleneck.tensors()) {
    bool generated = false;
    for (const auto& layer : bottleneck.layers()) generated |= layer.name == p.info.name;
    if (!generated) results.push_back(p.tensor.grad());
  }
  if (group.rank() != 0) return;
  std::ofstream out(path, std::ios::binary);
  for (const auto& result : results) write(out, result);
}

void owners(Net& net, GenomicBottleneck& bottleneck, Group& group, const std::string& path) {
  one_step(net, bottleneck, group, 0);
  std::ofstream out(path + "." + std::to_string(group.rank()));
  for (const auto& layer : bottleneck.layers()) {
    // Gradients are where g-nets are computed.
    out << layer.name << " " << layer.replicated << " "
        << (layer.grad.abs().sum().item<double>() > 0);
    for (const int rank : layer.ranks) out << " " << rank;
    out << "\n";
  }
  out << bottleneck.describe();
}

void traffic(Net& net, GenomicBottleneck& bottleneck, Group& group, const std::string& path) {
  const Traffic before = group.traffic();
  for (int step = 0; step < 3; ++step) {
    one_step(net, bottleneck, group, step);
    bottleneck.step();
  }
  const std::int64_t sent = (group.traffic() - before).bytes();
  const std::vector<std::string> all = group.all_gather(std::to_string(sent));
  std::int64_t total = 0, weights = 0;
  for (const std::string& text : all) total += std::stoll(text);
  for (const auto& layer : bottleneck.layers()) weights += layer.weights.numel();
  if (group.rank() != 0) return;
  std::ofstream(path) << total << " " << weights << " " << gnet_parameters(bottleneck) << " "
                      << plain_parameters(bottleneck) << "\n";
}

BottleneckOptions all_plain() {
  BottleneckOptions options;
  options.min_elements = 1 << 30;
  return options;
}

/// Every rank makes the same gradient until one does not.
class Drifting : public Strategy {
 public:
  Drifting(Group& group, std::int64_t from) : group_(group), from_(from) {}
  std::vector<std::string> needs() const override { return {"whole-batch"}; }
  void build(const StrategySetup& setup) override { model_ = &setup.model; }
  Measurements step(const StrategyBatch& batch) override {
    const bool drifts = from_ >= 0 && batch.step >= from_ && group_.rank() == 1;
    for (NamedParameter& p : model_->tensors())
      p.tensor.mutable_grad() = torch::full_like(p.tensor.detach(), drifts ? 1e-3 : 1e-4);
    return {1, {}};
  }

 private:
  Group& group_;
  std::int64_t from_;
  Model* model_ = nullptr;
};

void drift(const PluginHost& plugins, Group& group, const std::string& from) {
  torch::manual_seed(1);  // the same weights on every rank
  const auto model = build_model("mlp:64-16-10", plugins.registry());
  GenomicBottleneck bottleneck(model->tensors(), plugins.registry(), all_plain(), &group);
  Drifting strategy(group, std::stoll(from));
  const Data digits = open_data("digits");
  TrainOptions options;
  options.epochs = 10;
  strategy.build(strategy_setup(*model, bottleneck, digits.train, options, &group));
  train(*model, bottleneck, digits.train, options, nullptr, {}, {}, &strategy);
}

using Weights = std::map<std::string, torch::Tensor>;

/// Weights before the first batch and after each of nine, by AdamW with a constant learning rate.
std::vector<Weights> history_of(const PluginHost& plugins, Group* group,
                                const std::string& options) {
  constexpr std::int64_t kRows = 16;
  torch::manual_seed(5);
  const auto model = build_model("mlp:20-24-16-12-5", plugins.registry());
  BottleneckOptions stored = all_plain();
  stored.plain_optimizer.lr = 0.01;
  stored.plain_optimizer.weight_decay = 0.1;
  GenomicBottleneck bottleneck(model->tensors(), plugins.registry(), stored, group);
  StrategySetup setup{*model, bottleneck, group};
  setup.loss = [](const at::Tensor& output, const StrategyBatch& batch) {
    return torch::nn::functional::cross_entropy(output, batch.targets);
  };
  setup.example = torch::zeros({1, 20});
  setup.seed = 3;
  setup.batch = kRows;
  const auto strategy = make_strategy({"al", options}, setup, plugins.registry());
  model->train(true);
  std::vector<Weights> history;
  for (std::int64_t step = 0;; ++step) {
    bottleneck.predict_weights();  // gathers those that one rank has
    history.emplace_back();
    for (const NamedParameter& p : model->tensors())
      history.back()[p.info.name] = p.tensor.detach().clone();
    if (step == 9) return history;
    torch::manual_seed(static_cast<std::uint64_t>(100 + step));
    StrategyBatch batch;
    batch.inputs = torch::randn({kRows, 20});
    batch.targets = torch::randint(5, {kRows}, torch::kLong);
    batch.step = step;
    bottleneck.zero_grad();
    strategy->step(batch);
    bottleneck.backward(Gradients::kSame);
    bottleneck.step();
  }
}

void pipeline(const PluginHost& plugins, Group& group, const std::string& options) {
  const auto alone = history_of(plugins, nullptr, ""),
             piped = history_of(plugins, &group, "pipeline=1 " + options);
  const char* const stages[] = {"0", "2", "4", "6"};
  for (std::size_t late = 0; late < 4; ++late)
    for (const char* kind : {".weight", ".bias"}) {
      const std::string name = stages[late] + std::string(kind);
      for (std::size_t n = 0; n < piped.size(); ++n)
        if (!torch::equal(piped[n].at(name), alone[n < late ? 0 : n - late].at(name)))
          throw Error(Errc::kFailure, name + " differs in step " + std::to_string(n));
      if (torch::equal(piped.front().at(name), piped.back().at(name)))
        throw Error(Errc::kFailure, name + " has not been trained");
    }
}

int run(int argc, char** argv) {
  if (argc != 6) throw Error(Errc::kUsage, "--timeout S SCENARIO OUT PLACEMENT");
  const std::string scenario = argv[3], path = argv[4];
  const Launch launch = read_launch();
  set_log_rank(launch.rank, launch.world);
  PluginHost plugins;
  plugins.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
  plugins.load_installed();
  GroupOptions group_options;
  group_options.timeout = std::chrono::seconds(std::stoi(argv[2]));
  const auto group = Group::open(launch, group_options);
  run_together(*group, [&] {
    if (scenario == "drift") return drift(plugins, *group, argv[5]);
    if (scenario == "pipeline") return pipeline(plugins, *group, argv[5]);
    torch::manual_seed(1);
    Net net;
    GenomicBottleneck bottleneck(*net, plugins.registry(), options_of(argv[5]), group.get());
    (scenario == "gradient" ? gradient
     : scenario == "owners" ? owners
                            : traffic)(net, bottleneck, *group, path);
  });
  return 0;
}

}  // namespace
}  // namespace gbcompress

int main(int argc, char** argv) try {
  return gbcompress::run(argc, argv);
} catch (const std::exception& error) {
  gbcompress::log_line(error.what());
  return 1;
}
