#include "open_weights.h"

#include "gbcompress/artifact.h"
#include "gbcompress/bottleneck.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"

namespace gbcompress::cli {
namespace fs = std::filesystem;
namespace {

std::unique_ptr<Model> expanded(const WeightsOf& wanted, const Registry& registry) {
  const ArtifactReader artifact = ArtifactReader::open(wanted.file);
  artifact.verify();
  const std::string arch = !wanted.arch.empty() ? wanted.arch : artifact.arch();
  const bool built = !arch.empty() && arch != "torchscript";
  if (!built && wanted.model.empty())
    throw Error(Errc::kUsage,
                arch == "torchscript"
                    ? "this file came from TorchScript, whose code it does not hold; give the "
                      "original with --model FILE"
                    : "this file names no architecture; give one with --arch NAME, or the original "
                      "TorchScript model with --model FILE");
  const std::vector<NamedParameter> tensors = expand(artifact, registry);
  std::unique_ptr<Model> model;
  if (!wanted.model.empty()) {
    model = open_model(wanted.model, wanted.arch, registry, wanted.options);
  } else {
    std::vector<ParameterInfo> weights;
    for (const NamedParameter& each : tensors) weights.push_back(each.info);
    model = build_for(arch, weights, registry);
  }
  load_tensors(*model, tensors);
  return model;
}

}  // namespace

std::unique_ptr<Model> open_weights(const WeightsOf& wanted, const Registry& registry) {
  if (fs::is_regular_file(wanted.file) && ArtifactReader::is_artifact(wanted.file))
    return expanded(wanted, registry);
  return open_model(wanted.file, wanted.arch, registry, wanted.options);
}

}  // namespace gbcompress::cli
