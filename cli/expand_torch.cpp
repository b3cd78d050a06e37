// `expand` of layer types that plugins provide.
#include "expand_request.h"
#include "gbcompress/bottleneck.h"
#include "load_plugins.h"
#include "torch_module.h"

namespace gbcompress::cli {

int expand_with_torch(const Arguments& arguments) {
  ExpandRequest request(arguments);
  const ArtifactReader artifact = request.open();
  PluginHost host;
  load_plugins(host, arguments);
  return request.write(artifact, [&] {
    return expand_to_file(artifact, host.registry(), request.output.file(), request.overwrite);
  });
}

}  // namespace gbcompress::cli
