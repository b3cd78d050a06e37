#include "source_of.h"

#include "gbcompress/decode.h"
#include "gbcompress/weights.h"

namespace gbcompress::cli {

TensorBundle source_of(const ArtifactReader& artifact, const std::filesystem::path& file,
                       const OpenOptions& options) {
  OpenOptions own = options;
  if (const auto container = container_of(artifact)) own.requantize = container->requantized;
  TensorBundle tensors = open_tensors(file, own);
  if (!fits_layout(tensors, artifact.arch())) return tensors;
  WeightsOptions lossy;
  lossy.max_bytes = 1;
  lossy.arch = artifact.arch();
  // A norm whose statistics were not made constant was left as it was.
  for (const ArtifactTensor& tensor : artifact.tensors())
    if (tensor.name.ends_with(".running_mean") && tensor.kind != TensorKind::kConstant)
      lossy.exact.push_back(tensor.name);
  return arranged(tensors, lossy);
}

}  // namespace gbcompress::cli
