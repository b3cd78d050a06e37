// `sweep` as the command line shows it; the work needs LibTorch (sweep_torch.cpp).
#include <boost/program_options.hpp>

#include "command.h"
#include "report.h"
#include "run_options.h"

namespace gbcompress::cli {
namespace po = boost::program_options;

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

}  // namespace gbcompress::cli
