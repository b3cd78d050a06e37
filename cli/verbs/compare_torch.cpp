// What `compare` needs LibTorch for: outputs, TorchScript, layer types of plugins.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "comparison.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/options.h"
#include "gbcompress/tensors.h"
#include "gbcompress/train.h"
#include "listing.h"
#include "load_plugins.h"
#include "metric_text.h"
#include "model_options.h"
#include "open_weights.h"
#include "progress.h"
#include "run_options.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;

/// Tensors in memory as a bundle that owns them.
TensorBundle bundle_of(const std::vector<NamedParameter>& tensors) {
  TensorBundle bundle;
  for (const NamedParameter& each : tensors) {
    auto held = std::make_shared<at::Tensor>(each.tensor.detach().contiguous());
    bundle.tensors.push_back(
        {each.info.name,
         each.info.dtype,
         each.info.shape,
         {static_cast<const std::byte*>(held->const_data_ptr()), held->nbytes()}});
    bundle.owners.push_back(std::move(held));
  }
  sort_by_name(bundle, "the model");
  return bundle;
}

Compared open_with_torch(const fs::path& file, const Arguments& arguments,
                         const Registry& registry) {
  const FileKind kind = sniff(file);
  if (kind == FileKind::kArtifact) {
    ArtifactReader artifact = ArtifactReader::open(file);
    artifact.verify();
    const auto held = std::make_shared<TensorBundle>(bundle_of(expand(artifact, registry)));
    const std::vector<ArtifactTensor> tensors = artifact.tensors();
    const TensorDecoder decode = [held, tensors](std::size_t i) {
      const auto bytes = held->find(tensors[i].name)->bytes;
      return std::vector<std::byte>(bytes.begin(), bytes.end());
    };
    return {file, format_name(kind, file), TensorSource::of(std::move(artifact), decode)};
  }
  TensorBundle bundle;
  if (kind == FileKind::kTorchScript) {
    bundle = bundle_of(open_model(file, "", registry)->tensors());
    bundle.file_bytes = static_cast<std::int64_t>(fs::file_size(file));
  } else {
    bundle = open_tensors(file, model_options(arguments));
    say_notes(arguments, bundle.notes);
  }
  return {file, format_name(kind, file), TensorSource::of(std::move(bundle))};
}

/// What a `.gbz` says, or "".
std::string own_arch(const fs::path& file) {
  if (!fs::is_regular_file(file) || !ArtifactReader::is_artifact(file)) return "";
  const std::string arch = ArtifactReader::open(file).arch();
  return arch == "torchscript" ? "" : arch;
}

/// One file may say what the other does not: its architecture, or a forward pass of TorchScript.
WeightsOf wanted(const fs::path& file, const fs::path& other, const Arguments& arguments) {
  WeightsOf result{file, arguments.text("arch"), arguments.text("model"), model_options(arguments)};
  const FileKind kind = sniff(file);
  if (kind == FileKind::kTorchScript) {
    result.arch = "";
  } else if (result.arch.empty() && own_arch(file).empty()) {
    result.arch = own_arch(other);
    if (kind == FileKind::kArtifact && result.arch.empty() && result.model.empty() &&
        sniff(other) == FileKind::kTorchScript)
      result.model = other;
  }
  if (kind != FileKind::kArtifact) result.model = "";
  return result;
}

ComparedOutputs outputs_of(const Arguments& arguments, const PluginHost& host) {
  Settings settings = settings_below_flags(arguments);
  say_unused(arguments, settings, {"data.", "train.threads"}, "compare");
  if (settings.threads > 0) at::set_num_threads(static_cast<int>(settings.threads));
  const fs::path a = arguments.words()[0], b = arguments.words()[1];
  const auto of_a = open_weights(wanted(a, b, arguments), host.registry());
  const auto of_b = open_weights(wanted(b, a, arguments), host.registry());
  const Data data = answered(*of_a, open_data(arguments.text("data"), settings.data));
  ProgressDisplay display(arguments.quiet());
  const OutputComparison found =
      compare_outputs(*of_a, *of_b, data.test, data.metric, display.sink());
  display.clear();
  return {std::string(metric_name(data.metric)),
          metric_heading(data.metric),
          metric_unit(data.metric),
          found.metric_a,
          found.metric_b,
          found.agreement,
          found.divergence,
          found.largest_difference,
          found.samples,
          data.spec};
}

}  // namespace

int compare_with_torch(const Arguments& arguments) {
  PluginHost host;
  load_plugins(host, arguments);
  std::optional<ComparedPair> pair = open_pair(arguments);
  if (!pair)
    pair = {open_with_torch(arguments.words()[0], arguments, host.registry()),
            open_with_torch(arguments.words()[1], arguments, host.registry())};
  if (!arguments.has("data")) return print_comparison(arguments, *pair);
  return print_comparison(arguments, *pair, outputs_of(arguments, host));
}

}  // namespace gbcompress::cli
