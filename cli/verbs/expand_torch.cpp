// `expand` of layer types that plugins provide.
#include "expand_request.h"
#include "gbcompress/bottleneck.h"
#include "load_plugins.h"
#include "torch_module.h"

namespace gbcompress::cli {

int expand_with_torch(const Arguments& arguments) {
  ExpandRequest request(arguments);
  const ArtifactReader artifact = request.open();
  const DecodeOptions delta = request.decoding(artifact, arguments);
  PluginHost host;
  load_plugins(host, arguments);
  return request.write(artifact, delta, [&] {
    // What changed since a base holds no layer types; a plugin was named to be checked.
    if (delta.base)
      return decode_to_file(artifact, request.output.file(), request.overwrite, delta);
    return expand_to_file(artifact, host.registry(), request.output.file(), request.overwrite);
  });
}

}  // namespace gbcompress::cli
