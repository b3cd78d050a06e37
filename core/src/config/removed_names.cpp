#include "config/removed_names.h"

#include "gbcompress/settings.h"

namespace gbcompress {

const std::vector<RemovedName>& removed_names() {
  constexpr std::string_view kTimes =
      "the page docs/guides/several-machines.md has measured times of several processes";
  static const std::vector<RemovedName> names = {
      {"artifact.plain", "use a [[layer]] rule with mode = \"exact\" for exact values"},
      {"checkpoint.keep", "the last two checkpoints are kept"},
      {"gnet.kernel_code", "one_hot codes number the positions of a convolution's kernel"},
      {"layer.kernel_code", "one_hot codes number the positions of a convolution's kernel"},
      {"optim.beta1", "the first moment of g-nets decays by 0.9"},
      {"optim.eps", "Adam's epsilon is 1e-8"},
      {"optim.gradient_scale", "the program scales gradients of g-nets as torchGB does"},
      {"rate.evenness", "the program chooses the step sizes of tensors"},
      {"rate.step_speed", "step sizes have three times the learning rate rate.lr"},
      {"quant.step_per", "each trained tensor has one step size"},
      {"rate.steps", "each trained tensor has one step size"},
      {"train.accumulate", "use a smaller train.batch to save memory"},
      {"train.fit_steps", "g-nets are fitted in 300 steps"},
      {"train.kernel", "the program computes g-nets by its fused kernel"},
      {"train.mirror", "use train.flip"},
      {"weights.prior", "g-nets as priors of quantized weights do not make files smaller"},
      {"layer.prior", "g-nets as priors of quantized weights do not make files smaller"},
      {"option bandwidth", kTimes},
      {"option latency", kTimes},
      {"option local-rank", "set the environment variable LOCAL_RANK"},
      {"option master", "set the environment variables MASTER_ADDR and MASTER_PORT"},
      {"option micro-batch-seconds", kTimes},
      {"option profile", "the number of weights decides the profile"},
      {"option rank", "set the environment variable RANK"},
      {"option simulate", kTimes},
      {"option world", "set the environment variable WORLD_SIZE"},
      {"bench scaling", kTimes},
      {"mode=coded", "use quantized"},
      {"mode=fast", "use `effort` fast"},
      {"mode=plain", "use exact"},
      {"mode=raw", "use exact"},
      {"mode=residual", "use quantized"},
  };
  return names;
}

std::string instead_of_removed(std::string_view name) {
  for (const RemovedName& each : removed_names())
    if (each.name == name) return std::string(each.instead);
  return "";
}

std::string removal_of(std::string_view name) {
  const std::string instead = instead_of_removed(name);
  return instead.empty() ? "" : std::string(name) + " was removed; " + instead;
}

}  // namespace gbcompress
