// `bench` as the command line shows it; the work needs LibTorch (bench_torch.cpp).
#include <boost/program_options.hpp>

#include "command.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

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

}  // namespace gbcompress::cli
