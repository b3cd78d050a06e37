// The verbs whose work needs LibTorch, as the command line shows them. The work itself lies in a
// module that is opened on demand (torch_module.h).
#include <boost/program_options.hpp>

#include "command.h"
#include "model_options.h"
#include "plan_options.h"
#include "report.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

namespace {

void eval_options(po::options_description& into) {
  auto add = into.add_options();
  add("data", text_value("KIND:PATH"),
      "test set: mnist:DIR, cifar10:FILE, text:FILE, tensors:FILE, features:FILE or digits");
  add("arch", text_value("NAME"), "architecture; a .gbz names its own");
  add("model", text_value("FILE"), "the original model, for a .gbz made from TorchScript");
  add("exit", text_value("K"),
      "evaluate early exit K, 1 the earliest, of a model with exits; or all, for a table");
  add_model_options(into);
  add("config", text_value("FILE"), "read settings from a TOML file");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "one setting; repeatable");
  add_report_options(into, /*force=*/true);
}

}  // namespace

const Verb& eval_verb() {
  static const Verb verb = {
      "eval",
      "Evaluate a model or a .gbz on a test set.",
      "FILE --data KIND:PATH [options]",
      "  gbcompress eval model.safetensors --arch lenet-300-100 --data mnist:DIR\n"
      "  gbcompress eval model.gbz --data mnist:DIR\n"
      "  gbcompress eval model.gbz --model original.torchscript.pt --data text:FILE\n",
      1,
      1,
      eval_options,
      nullptr};
  return verb;
}

namespace {

void bench_options(po::options_description& into) {
  auto add = into.add_options();
  add("shape", po::value<std::vector<std::string>>()->value_name("NAME"),
      "mnist-mlp, gpt2-block, llama-block, resnet20, pnas-layer, or ROWSxCOLS for one layer; as "
      "often as needed (default: all five)");
  add("threads", po::value<std::string>()->value_name("N"), "worker threads (default: all cores)");
  add("seconds", po::value<std::string>()->value_name("S"), "time for each shape (default: 2)");
  add("kernel", po::value<std::string>()->value_name("NAME"),
      "fused or reference (default: fused)");
  add("isa", po::value<std::string>()->value_name("NAME"),
      "instruction set of the fused kernel: AVX2, SSE4");
}

}  // namespace

const Verb& bench_verb() {
  static const Verb verb = {"bench",
                            "Measure the speed of g-nets on this machine.",
                            "engine [options]",
                            "  gbcompress bench engine\n"
                            "  gbcompress bench engine --shape gpt2-block --threads 1 --json\n",
                            1,
                            1,
                            bench_options,
                            nullptr,
                            false,
                            {"engine"}};
  return verb;
}

void add_plan_options(po::options_description& into) {
  add_model_options(into);
  auto add = into.add_options();
  add("world", text_value("N"), "number of processes to plan for");
  add("arch", text_value("NAME"), "architecture, for a file that holds names and values only");
  add("config", text_value("FILE"), "read settings from a TOML file, as compress does");
  add("set", po::value<std::vector<std::string>>()->value_name("KEY=VALUE"),
      "one setting; repeatable");
}

namespace {

void plan_options(po::options_description& into) {
  auto add = into.add_options();
  add("model", text_value("FILE"), "the model; only the header of a safetensors file is read");
  add("simulate", "predict the time of a step at 1, 2, 4, ... processes up to --world");
  add("bandwidth", text_value("RATE"), "bandwidth of each process's link: 25GB/s, 100Mbit/s");
  add("latency", text_value("TIME"), "latency of one message (default: 20us)");
  add("micro-batch-seconds", text_value("TIME"),
      "time of the model's own forward and backward pass on one process (default: 0)");
  add("threads", text_value("N"), "worker threads of each process (default: all cores)");
  add_plan_options(into);
}

}  // namespace

const Verb& plan_verb() {
  static const Verb verb = {
      "plan",
      "Plan g-nets for a model, and predict the time of a step.",
      "--model FILE [--simulate --bandwidth RATE] [options]",
      "  gbcompress plan --model model.safetensors --world 4\n"
      "  gbcompress plan --simulate --world 64 --bandwidth 25GB/s --model model.safetensors\n",
      0,
      0,
      plan_options,
      nullptr};
  return verb;
}

namespace {

void sweep_options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", text_value("FOLDER"), "folder for points and tables; a second call resumes");
  add("lambdas", text_value("L,L,..."),
      "with data: rate weights lambda (default: 3,1,0.3,0.1,0.03)");
  add("ratios", text_value("R,R,..."),
      "target sizes: the size of MODEL over R (default without data: 4,8,16,32)");
  add("errors", text_value("E,E,..."), "without training: relative squared weight errors");
  add_run_options(into);
  add("tensorboard", text_value("DIR"), "write event files for TensorBoard, one folder per point");
  add_rank_options(into);
  add_report_options(into, /*force=*/true);
}

}  // namespace

const Verb& sweep_verb() {
  static const Verb verb = {
      "sweep",
      "Compute the rate-distortion curve of a model, beside simple baselines.",
      "MODEL -o FOLDER [options]",
      "  gbcompress sweep model.safetensors --arch lenet-300-100 --data mnist:DIR -o curve\n"
      "  gbcompress sweep --from-scratch --arch mlp:784-300-100-10 --data mnist:DIR \\\n"
      "      --lambdas 1,0.3,0.1 -o curve\n"
      "  gbcompress sweep weights.safetensors --ratios 4,8,16 -o curve\n",
      0,
      1,
      sweep_options,
      nullptr};
  return verb;
}

const Verb& probe_verb() {
  static const Verb verb = {"probe-plugin",
                            "Load a plugin and print what it registers.",
                            "FILE",
                            "",
                            1,
                            1,
                            nullptr,
                            nullptr,
                            true};
  return verb;
}

}  // namespace gbcompress::cli
