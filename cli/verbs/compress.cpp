// `compress` as the command line shows it.
#include <algorithm>
#include <boost/program_options.hpp>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "command.h"
#include "compress_options.h"
#include "each_input.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "report.h"
#include "run_options.h"
#include "standard_streams.h"
#include "torch_module.h"
#include "weights_alone.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

void add_compress_options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", text_value("FILE"),
      "the .gbz to write (the model's name with .gbz), a folder OUT/, or - for standard output");
  add("mode", text_value("NAME"),
      "how weights are stored. quantized: integers times a step size; generated: g-nets "
      "generate the weights; exact: every value bit for bit; auto (default): quantized, and "
      "g-nets where a rule names them");
  add("lossless", "store every value exactly, and train nothing");
  add("layers",
      "with --lossless: first a draft of the size or error that is given, then the exact rest; "
      "expand --draft reads the first part alone");
  add_run_options(into);
  add("ratio", text_value("R"),
      "target size: the size of MODEL over R, such as 8 or 8x (default without data: 10x)");
  add("max-bytes", text_value("N"), "target size in bytes: 50000, 50kB, 5MB, 2MiB");
  add("bits", text_value("B"), "target size in bits per weight, such as 4");
  add("max-drop", text_value("P"),
      "largest quality drop on the held-out split of the data: points of accuracy, or nats per "
      "character");
  add("max-error", text_value("E"),
      "without data: largest relative squared weight error of a tensor, such as 0.001 or 0.1%");
  add("base", po::value<std::vector<std::string>>()->value_name("FILE"),
      "without data: store the change since this model or .gbz; expand then needs it too; with "
      "--lossless repeatable: each tensor is the change since the best of them");
  add("requantize",
      "of ONNX and GGUF models: compress the real values that int8 weights with constant scales "
      "and "
      "Q8_0 tensors stand for; expand quantizes them again");
  add("statistics", text_value("FILE"),
      "calibrate: second-order statistics of the weights, a safetensors file as gbc.collect() in "
      "Python writes it");
  add("effort", text_value("NAME"),
      "methods for a target size with data. fast: data-free or calibrated, never trained; "
      "balanced (default): trained only if calibration lowers the quality; max: trained");
  add("minutes", text_value("M"), "time limit of the run; default: chosen from model and data");
  add("dry-run", "print the plan with estimates of size, memory and time; write nothing");
  add("force", "replace an existing output file and report");
  add_report_options(into, /*force=*/false);
  add("tensorboard", text_value("DIR"),
      "write event files for TensorBoard: loss, bits, lambda, bytes");
  add("resume", text_value("DIR"),
      "resume a run from a checkpoint, or from the newest in a folder");
  add("checkpoint", text_value("DIR"),
      "folder for checkpoints, which stay; default: beside the output, removed at the end");
  add("deterministic", "give the same file for 1, 2, 4 or 8 processes and any number of threads");
}

int compress_one(const Arguments& arguments, Family* family) {
  const auto& words = arguments.words();
  const bool piped = arguments.text("output") == "-" ||
                     std::find(words.begin(), words.end(), kStandardInput) != words.end();
  if (piped && read_launch().world > 1)
    throw Error(Errc::kUsage,
                "several processes cannot share standard input or output (-); name files");
  const Settings settings = compress_settings(arguments);
  if (auto tensors = tensors_of_request(arguments, settings))
    return compress_weights_alone(arguments, settings, *std::move(tensors), family);
  if (arguments.has("statistics"))
    throw Error(Errc::kUsage,
                "--statistics needs a file of tensors on one process; leave out --data and g-nets");
  if (arguments.has("base"))
    throw Error(
        Errc::kUsage,
        "--base needs data-free compression of a file of tensors on one process; leave out --data "
        "and g-nets");
  if (arguments.has("layers"))
    throw Error(Errc::kUsage,
                "--layers needs data-free compression of a file of tensors on one process; leave "
                "out --data and g-nets");
  return run_with_torch("compress", arguments);
}

/// The words without those that the first part of a split GGUF model among them stands for.
std::vector<std::string> without_parts(const std::vector<std::string>& words) {
  std::set<fs::path> parts;
  const auto place = [](const fs::path& file) { return fs::absolute(file).lexically_normal(); };
  for (const std::string& word : words) {
    if (word == kStandardInput) continue;
    try {
      if (!is_gguf(word)) continue;
      const auto files = gguf_files(word);
      for (std::size_t i = 1; i < files.size(); ++i) parts.insert(place(files[i]));
    } catch (const Error&) {
      continue;  // told where that input has its turn
    }
  }
  std::vector<std::string> left;
  for (const std::string& word : words)
    if (word == kStandardInput || !parts.contains(place(word))) left.push_back(word);
  return left;
}

bool makes_family(const Arguments& arguments) {
  return !arguments.has("base") && !arguments.has("layers") &&
         compress_settings(arguments).compress.bottleneck.mode == WeightMode::kExact;
}

int run_compress(const Arguments& arguments) {
  need_model(arguments, "compress");
  const Maker maker{".gbz", "-gbz", "OUT.gbz", compress_one, nullptr, makes_family};
  if (arguments.words().size() < 2) return run_each(arguments, maker);
  const std::vector<std::string> words = without_parts(arguments.words());
  if (words.size() < arguments.words().size() && !arguments.quiet())
    say("the parts of a split model are compressed with the first one, as one model");
  return run_each(words.size() < arguments.words().size() ? arguments.with_words(words) : arguments,
                  maker);
}

}  // namespace

const Verb& compress_verb() {
  static const Verb verb = {
      "compress",
      "Compress a model file into a .gbz.",
      "MODEL [MODEL...] [-o OUT] [options]",
      "  gbcompress compress model.safetensors --ratio 8x -o model.gbz\n"
      "  gbcompress compress model-folder/ --bits 4 -o packed/\n"
      "  gbcompress compress *.safetensors --ratio 8 -o packed/\n"
      "  gbcompress compress --lossless base/ tuned-1/ tuned-2/ -o archive/\n"
      "  gbcompress compress --lossless --layers --ratio 8 model.safetensors -o model.gbz\n"
      "  gbcompress compress tuned.safetensors --base model.gbz --max-error 0.1% -o tuned.gbz\n"
      "  gbcompress compress model.safetensors --arch lenet-300-100 --data mnist:DIR \\\n"
      "      --max-drop 0.5 -o model.gbz\n"
      "  gbcompress compress model.torchscript.pt --data cifar10:DIR --ratio 20x -o model.gbz\n"
      "  gbcompress compress --from-scratch --arch mlp:784-300-100-10 --data mnist:DIR \\\n"
      "      --max-bytes 3kB -o model.gbz\n",
      0,
      kAnyNumber,
      add_compress_options,
      run_compress,
      false,
      {},
      {},
      true};
  return verb;
}

}  // namespace gbcompress::cli
