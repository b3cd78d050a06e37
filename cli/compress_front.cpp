// `compress` as the command line shows it.
#include <boost/program_options.hpp>

#include "command.h"
#include "compress_options.h"
#include "gbcompress/error.h"
#include "report.h"
#include "run_options.h"
#include "torch_module.h"
#include "weights_alone.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

void options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", text_value("FILE"), "the .gbz to write; of a folder, a folder: OUT/");
  add("mode", text_value("NAME"),
      "auto, generated, residual or raw: what the file holds of a parameter");
  add_run_options(into);
  add("ratio", text_value("R"), "make the file R times smaller than MODEL");
  add("max-bytes", text_value("N"), "make the file N bytes at most: 50000, 50k, 1MB");
  add("max-drop", text_value("P"), "lose P at most, in percent of accuracy or nats a character");
  add("max-error", text_value("E"),
      "without data: lose at most this share of the squares of any tensor, such as 0.001");
  add("base", text_value("FILE"),
      "without data: store what changed since this model or .gbz, which expand then needs");
  add("minutes", text_value("M"),
      "take M minutes at most; without it, what model and data ask for");
  add("dry-run", "show the plan, and about how many bytes and minutes it takes; write nothing");
  add("force", "replace the output file, and the report");
  add_report_options(into, /*force=*/false);
  add("tensorboard", text_value("DIR"),
      "write event files for TensorBoard: loss, bits, price, bytes");
  add("resume", text_value("DIR"), "go on from a checkpoint, or from the newest in a folder");
  add("checkpoint", text_value("DIR"),
      "where checkpoints are written, to stay; else beside the output, and removed at the end");
  add("placement", text_value("NAME"), "with several processes: auto, owner or replicated");
  add("deterministic", "the same file for 1, 2, 4 or 8 processes and any number of threads");
  add_rank_options(into);
}

int run(const Arguments& arguments) {
  need_model(arguments, "compress");
  if (arguments.text("output").empty() && !arguments.has("dry-run"))
    throw Error(Errc::kUsage, "name the file to write: -o OUT.gbz");
  const Settings settings = compress_settings(arguments);
  if (auto tensors = weights_that_suffice(arguments, settings))
    return compress_weights_alone(arguments, settings, *std::move(tensors));
  if (arguments.has("base"))
    throw Error(
        Errc::kUsage,
        "--base is for weights alone: a file of tensors, without --data, without g-nets and "
        "on one process");
  return run_with_torch("compress", arguments);
}

}  // namespace

const Verb& compress_verb() {
  static const Verb verb = {
      "compress",
      "Compress a model file into a .gbz.",
      "MODEL -o OUT.gbz [options]",
      "  gbcompress compress model.safetensors --arch lenet-300-100 --data mnist:DIR --ratio 20 -o "
      "model.gbz\n"
      "  gbcompress compress model.torchscript.pt --data cifar10:DIR --max-drop 2 -o model.gbz\n"
      "  gbcompress compress --from-scratch --arch mlp:784-300-100-10 --data mnist:DIR --mode "
      "residual --max-bytes 3k -o model.gbz\n"
      "  gbcompress compress weights.safetensors --max-bytes 500k -o weights.gbz\n"
      "  gbcompress compress model-folder/ --ratio 8 -o packed/\n"
      "  gbcompress compress tuned.safetensors --base model.gbz --max-error 0.001 -o tuned.gbz\n",
      0,
      1,
      options,
      run};
  return verb;
}

}  // namespace gbcompress::cli
