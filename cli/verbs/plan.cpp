// `plan` as the command line shows it; the work needs LibTorch (plan_torch.cpp).
#include <boost/program_options.hpp>

#include "command.h"
#include "model_options.h"
#include "plan_options.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

void add_plan_options(po::options_description& into) {
  add_model_options(into);
  auto add = into.add_options();
  add("world", text_value("N"), "world size to plan for, in processes");
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

}  // namespace gbcompress::cli
