// `expand` of layer types that plugins provide.
#include "exit_status.h"
#include "expand_request.h"
#include "gbcompress/bottleneck.h"
#include "load_plugins.h"
#include "torch_module.h"

namespace gbcompress::cli {

int expand_with_torch(const Arguments& arguments) {
  const ExpandRequest request(arguments);
  const ArtifactReader artifact = request.open();
  PluginHost host;
  load_plugins(host, arguments);
  const std::int64_t bytes = writing(
      [&] { return expand_to_file(artifact, host.registry(), request.output, request.overwrite); });
  return request.report(artifact, bytes);
}

}  // namespace gbcompress::cli
