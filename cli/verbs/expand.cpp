#include <algorithm>
#include <boost/program_options.hpp>

#include "each_input.h"
#include "expand_request.h"
#include "file_names.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model_folders.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace po = boost::program_options;
namespace {

void add_expand_options(po::options_description& into) {
  auto add = into.add_options();
  add("output,o", po::value<std::string>()->value_name("FILE"),
      "the .safetensors, .npz, .onnx or .gguf to write (the input's name with .safetensors, or "
      ".onnx or .gguf where it was made of that), a folder OUT/, or - for standard output");
  add("max-output", po::value<std::string>()->value_name("N"),
      "refuse a file that expands to more than N bytes: 500MB, 2GB");
  add("base", po::value<std::vector<std::string>>()->value_name("FILE"),
      "of a file that was made with --base, the same model, or a folder with the links of its "
      "chain; repeatable (default: the files beside it that state their tensors' digest)");
  add("draft", "of a file that was compressed with --layers, its first part alone: not exact");
  add("only", po::value<std::string>()->value_name("NAME"),
      "of a folder of several models, the one of that name");
  add("force", "replace the output file");
}

/// Files of layer types that need plugins are LibTorch's; a plugin that is named is checked too.
bool needs_torch(const ArtifactReader& artifact, const Arguments& arguments) {
  const auto& tensors = artifact.tensors();
  return arguments.has("plugin") || !std::all_of(tensors.begin(), tensors.end(), is_placed);
}

int expand_one(const Arguments& arguments, Family* /*family*/) {
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

/// `.gbz` files of a folder, and its subfolders that hold some. Of a folder that cannot be read,
/// nothing.
std::vector<fs::path> packed_in(const fs::path& folder, bool subfolders) {
  std::error_code ignored, failed;
  std::vector<fs::path> found;
  for (fs::directory_iterator at(folder, failed), end; !failed && at != end; at.increment(failed)) {
    const fs::path& path = at->path();
    const bool is_folder = fs::is_directory(fs::symlink_status(path, ignored));
    if (is_folder ? subfolders && !packed_in(path, false).empty() : path.extension() == ".gbz")
      found.push_back(path);
  }
  return found;
}

/// The models of a folder that holds several: its `.gbz` files, or folders; else the word itself.
std::vector<fs::path> models_of(const fs::path& word) {
  std::vector<fs::path> models = packed_in(word, true);
  for (const fs::path& part : component_folders(word))
    if (std::ranges::find(models, word / part) == models.end()) models.push_back(word / part);
  std::ranges::sort(models);
  return models.size() > 1 ? models : std::vector<fs::path>{word};
}

/// Folders of several `.gbz` files stand for these; with --only for the one of that name.
/// @throws Error(kUsage) where none or several have it
Arguments each_named(const Arguments& arguments) {
  const std::string only = arguments.text("only");
  std::vector<std::string> words, names;
  for (const std::string& word : arguments.words()) {
    const std::vector<fs::path> models = models_of(word);
    // The parts of a pipeline are one model.
    const bool apart = !only.empty() || component_folders(word).empty();
    for (const fs::path& model : apart ? models : std::vector<fs::path>{word}) {
      names.push_back(model_name(model));
      if (only.empty() || names.back() == only) words.push_back(model.string());
    }
  }
  if (!only.empty() && words.size() != 1) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : ", ") + printable(name);
    throw Error(Errc::kUsage, "--only " + printable(only) + " names " +
                                  (words.empty() ? "none" : "several") + " of the models: " + all);
  }
  return arguments.with_words(std::move(words));
}

int run_expand(const Arguments& arguments) {
  return run_each(each_named(arguments),
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
                            "  gbcompress expand archive/ --only tuned-2 -o tuned-2/\n"
                            "  gbcompress expand tuned.gbz --base model.gbz -o tuned.safetensors\n"
                            "  gbcompress expand model.gbz --draft -o draft.safetensors\n"
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
