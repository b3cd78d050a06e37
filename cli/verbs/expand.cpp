#include <algorithm>
#include <boost/program_options.hpp>

#include "each_input.h"
#include "expand_request.h"
#include "gbcompress/decode.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace {

void add_expand_options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"),
      "the .safetensors, .npz, .onnx or .gguf to write (the input's name with .safetensors, or "
      ".onnx or .gguf where it was made of that), a folder OUT/, or - for standard output");
  add("max-output", po::value<std::string>()->value_name("N"),
      "refuse a file that expands to more than N bytes: 500MB, 2GB");
  add("base", po::value<std::string>()->value_name("FILE"),
      "of a file that was made with --base, the same model, or a folder with the links of its "
      "chain");
  add("force", "replace the output file");
}

/// Files of layer types that need plugins are LibTorch's; a plugin that is named is checked too.
bool needs_torch(const ArtifactReader& artifact, const Arguments& arguments) {
  const auto& tensors = artifact.tensors();
  return arguments.has("plugin") || !std::all_of(tensors.begin(), tensors.end(), is_placed);
}

int expand_one(const Arguments& arguments) {
  ExpandRequest request(arguments);
  const ArtifactReader artifact = request.open_for_decoding();
  return request.undamaged(artifact, [&] {
    const DecodeOptions options = request.decoding(artifact, arguments);
    if (needs_torch(artifact, arguments)) return run_with_torch("expand", arguments);
    return request.write(artifact, options, [&] {
      return decode_to_file(artifact, request.output.file(), request.overwrite, options);
    });
  });
}

int run_expand(const Arguments& arguments) {
  return run_each(arguments,
                  {".safetensors", "-expanded", "OUT.safetensors", expand_one, expanded_suffix});
}

}  // namespace

const Verb& expand_verb() {
  static const Verb verb = {"expand",
                            "Turn a .gbz back into a .safetensors, .npz, .onnx or .gguf file.",
                            "IN.gbz [IN.gbz...] [-o OUT] [options]",
                            "  gbcompress expand model.gbz -o model.safetensors\n"
                            "  gbcompress expand model.gbz -o model.npz\n"
                            "  gbcompress expand model.gbz -o model.onnx\n"
                            "  gbcompress expand packed/ -o model/\n"
                            "  gbcompress expand *.gbz -o models/\n"
                            "  gbcompress expand tuned.gbz --base model.gbz -o tuned.safetensors\n"
                            "  gbcompress expand stranger.gbz -o model.safetensors --max-output "
                            "500MB\n",
                            1,
                            kAnyNumber,
                            add_expand_options,
                            run_expand,
                            false,
                            {},
                            {"decompress"},
                            true};
  return verb;
}

}  // namespace gbcompress::cli
