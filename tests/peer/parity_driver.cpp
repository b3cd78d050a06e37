// What one step of ours computes, for tests/peer/parity.py to compare with the published code:
//   gbc_parity dtp OUT ARCH ROWS OPTIONS    weights, batch, noise, losses, targets and gradients
//   gbc_parity dtp-sum OUT ARCH ...         the same without the losses of single feedback networks
//   gbc_parity al OUT ARCH ROWS OPTIONS     weights, batch, losses and gradients of all components
//   gbc_parity gnet OUT                     g-nets, the weights they give, and their gradients
// OUT is a dictionary of tensors as torch.load() reads it.
#include <torch/torch.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "gbcompress/ranks.h"
#include "gbcompress/strategy.h"

namespace gbcompress {
namespace {

constexpr std::uint64_t kSeed = 3;

class Dump {
 public:
  void add(const std::string& name, const at::Tensor& value) {
    values_.insert(name, value.detach().contiguous().clone());
  }
  void add(const std::string& name, double value) {
    values_.insert(name, torch::full({1}, value, torch::kDouble));
  }
  void write(const std::string& path) const {
    const std::vector<char> bytes = torch::pickle_save(values_);
    std::ofstream(path, std::ios::binary)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

 private:
  c10::Dict<std::string, at::Tensor> values_;
};

BottleneckOptions all_plain() {
  BottleneckOptions options;
  options.min_elements = 1 << 30;
  return options;
}

/// A model, its bottleneck and a strategy on one random batch.
struct Training {
  Training(const Registry& registry, const std::string& arch, std::int64_t rows,
           const StrategyChoice& choice) {
    torch::manual_seed(5);
    model = build_model(arch, registry);
    bottleneck.emplace(model->tensors(), registry, all_plain());
    const bool color = arch.find("lenet") == std::string::npos;
    torch::manual_seed(6);
    batch.inputs = color ? torch::rand({rows, 3, 32, 32}) : torch::rand({rows, 1, 28, 28});
    batch.targets = torch::randint(10, {rows});
    for (std::int64_t i = 0; i < rows; ++i) batch.samples.push_back(i);
    StrategySetup setup{*model, *bottleneck};
    setup.loss = [](const at::Tensor& output, const StrategyBatch& of) {
      return torch::nn::functional::cross_entropy(output, of.targets);
    };
    setup.example = batch.inputs.slice(0, 0, 1);
    setup.seed = kSeed;
    setup.batch = rows;
    strategy = make_strategy(choice, setup, registry);
    model->train(true);
  }
  Measurements step() {
    bottleneck->zero_grad();
    return strategy->step(batch);
  }
  void add_weights(Dump& dump) const {
    for (const NamedParameter& p : model->tensors())
      if (p.trainable) dump.add("weight." + p.info.name, p.tensor);
    dump.add("inputs", batch.inputs);
    dump.add("targets", batch.targets);
  }
  void add_gradients(Dump& dump) const {
    for (const NamedParameter& p : model->tensors())
      if (p.trainable) dump.add("gradient." + p.info.name, p.tensor.grad());
  }

  Training(const Training&) = delete;  // the strategy points to the bottleneck
  std::unique_ptr<Model> model;
  std::optional<GenomicBottleneck> bottleneck;
  std::unique_ptr<Strategy> strategy;
  StrategyBatch batch;
};

/// "watched:ARCH": outputs of the stages and the gradients that reach them are kept.
struct Watched {
  std::vector<at::Tensor> outputs, gradients;
};
void register_watched(Registry& registry, Watched& watched) {
  registry.stage("parity", [&](Registrar& r) {
    r.register_model("watched", [&watched](const ModelRequest& request) {
      BuiltModel built = request.build(request.options);
      watched.outputs.resize(built.stages.size());
      watched.gradients.resize(built.stages.size());
      for (std::size_t i = 0; i < built.stages.size(); ++i)
        built.stages[i].forward = [&watched, i,
                                   forward = built.stages[i].forward](const at::Tensor& x) {
          at::Tensor y = forward(x);
          watched.outputs[i] = y.detach();
          if (y.requires_grad())
            y.register_hook(
                [&watched, i](const at::Tensor& g) { watched.gradients[i] = g.clone(); });
          return y;
        };
      return built;
    });
  });
}

/// "K=0,1,0": of one stage's feedback network, counted from 1; 0: of all.
std::string one_iteration(std::size_t networks, std::size_t only) {
  std::string k = " K=";
  for (std::size_t i = 1; i <= networks; ++i) {
    if (i > 1) k += ',';
    k += only == 0 || only == i ? '1' : '0';
  }
  return k;
}

void dtp(PluginHost& plugins, Dump& dump, const std::string& arch, std::int64_t rows,
         const std::string& options, bool each) {
  Watched watched;  // in the step that was made last
  register_watched(plugins.registry(), watched);
  const auto training = [&](const std::string& more) {
    return Training(plugins.registry(), "watched:" + arch, rows, {"dtp", options + more});
  };
  const std::size_t networks =
      build_model("watched:" + arch, plugins.registry())->stages().size() - 1;
  Training run = training(one_iteration(networks, 0));
  run.add_weights(dump);
  run.model->train(false);
  at::Tensor x = run.batch.inputs;
  for (std::size_t i = 0; i <= networks; ++i) {
    const Stage& stage = run.model->stages()[i];
    const at::Tensor y = stage.forward(x).detach();
    const std::string number = std::to_string(i), layer = stage.name + "#0";
    if (i > 0) {
      const auto noise = [&](const char* purpose, const at::Tensor& like) {
        return normal_noise({kSeed, purpose, layer, 0}, run.batch.samples,
                            like.sizes().slice(1).vec());
      };
      dump.add("dx." + number, noise("dtp.input", x));
      dump.add("dy." + number, noise("dtp.output", y));
    }
    x = y;
  }
  run.model->train(true);
  const auto entries = [&](const std::string& of, const std::string& into) {
    for (const StateEntry& entry : run.strategy->aux_state())
      for (std::size_t i = 1; i <= networks; ++i)
        if (entry.name == run.model->stages()[i].name + of)
          dump.add(into + std::to_string(i), entry.value);
  };
  entries("#feedback", "feedback.");
  dump.add("feedback_loss", run.step().more.at("feedback_loss"));
  entries("#memory1", "feedback_gradient.");  // momentum after the first step
  for (std::size_t i = 0; i <= networks; ++i) {
    std::vector<at::Tensor> of_stage;
    for (const at::Tensor& p : run.model->stages()[i].module->parameters())
      of_stage.push_back(p.grad().flatten());
    dump.add("gradient." + std::to_string(i), at::cat(of_stage));
    dump.add("output." + std::to_string(i), watched.outputs[i]);
    dump.add("change." + std::to_string(i), watched.gradients[i]);
  }
  for (std::size_t i = 1; each && i <= networks; ++i)
    dump.add("feedback_loss." + std::to_string(i),
             training(one_iteration(networks, i)).step().more.at("feedback_loss"));
}

void al(PluginHost& plugins, Dump& dump, const std::string& arch, std::int64_t rows,
        const std::string& options) {
  Training run(plugins.registry(), arch, rows, {"al", options});
  run.add_weights(dump);
  for (const StateEntry& entry : run.strategy->aux_state())
    dump.add("before." + entry.name, entry.value);
  for (const auto& [name, value] : run.step().more) dump.add(name, value);
  run.add_gradients(dump);
  for (const StateEntry& entry : run.strategy->aux_state())
    dump.add("after." + entry.name, entry.value);
}

void gnet(PluginHost& plugins, Dump& dump) {
  torch::manual_seed(5);
  torch::nn::Sequential net(
      torch::nn::Linear(torch::nn::LinearOptions(300, 200).bias(false)),   // 2 x 3 whole tiles
      torch::nn::Linear(torch::nn::LinearOptions(130, 150).bias(false)));  // 2 x 2, cropped
  BottleneckOptions options;
  options.gnet.tile_weights = 10'000;
  options.gnet.hidden = {32};
  options.seed = kSeed;
  GenomicBottleneck bottleneck(*net, plugins.registry(), options);
  bottleneck.zero_grad();
  bottleneck.predict_weights();
  torch::manual_seed(6);
  for (const GeneratedLayer& layer : bottleneck.layers()) {
    at::Tensor weights = layer.weights;
    dump.add("original." + layer.name, layer.original);
    dump.add("theta." + layer.name, layer.theta);
    dump.add("predicted." + layer.name, weights);
    weights.mutable_grad() = 1e-3 * torch::randn(weights.sizes());
    dump.add("given." + layer.name, weights.grad());
  }
  bottleneck.backward();
  for (const GeneratedLayer& layer : bottleneck.layers())
    dump.add("grad." + layer.name, layer.grad);
}

int run(int argc, char** argv) {
  const std::string scenario = argc > 1 ? argv[1] : "";
  if (argc != (scenario == "gnet" ? 3 : 6))
    throw Error(Errc::kUsage, "gnet OUT, or dtp|al OUT ARCH ROWS OPTIONS");
  PluginHost plugins;
  plugins.registry().stage("test", [](Registrar& r) { register_builtin_models(r); });
  plugins.load_installed();
  Dump dump;
  if (scenario == "gnet")
    gnet(plugins, dump);
  else if (scenario == "dtp" || scenario == "dtp-sum")
    dtp(plugins, dump, argv[3], std::stoll(argv[4]), argv[5], scenario == "dtp");
  else
    al(plugins, dump, argv[3], std::stoll(argv[4]), argv[5]);
  dump.write(argv[2]);
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
