// ONNX files: what their graphs say about weights, and the files of a `.gbz` again.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>

#include "format/onnx/view.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/tensors.h"
#include "module.h"

namespace gbcompress::python {
namespace {

/// A dict for each node that takes a weight.
nb::list onnx_graph(const std::string& path) {
  nb::list uses;
  for (const onnx::ViewedUse& use : onnx::view_graph(path)) {
    nb::list graph;
    for (const auto& [node, place] : use.graph) graph.append(nb::make_tuple(node, place));
    nb::dict entry;
    entry["tensor"] = use.tensor;
    entry["graph"] = nb::tuple(graph);
    entry["node"] = use.node;
    entry["input"] = use.input;
    entry["transposed"] = use.transposed;
    entry["reshaped"] = use.reshaped;
    entry["computed"] = use.computed;
    entry["rows"] = use.rows;
    entry["payload"] = use.payload
                           ? nb::object(nb::make_tuple(use.payload->offset, use.payload->size))
                           : nb::object(nb::none());
    uses.append(entry);
  }
  return uses;
}

/// @return bytes of the files
/// @throws Error(kUsage) for a file that was not made of an ONNX model
std::int64_t expand_container(const std::string& path, const std::string& output, bool overwrite,
                              int threads) {
  const nb::gil_scoped_release release;
  const ArtifactReader artifact = ArtifactReader::open(path);
  const auto container = container_of(artifact);
  if (!container || container->format != "onnx")
    throw Error(Errc::kUsage, printable(path) + " was not made of an ONNX model" +
                                  (!container ? ""
                                   : container->format == "gguf"
                                       ? " but of a GGUF file"
                                       : " but of a file of " + printable(container->format)) +
                                  "; `gbcompress expand` writes it");
  return decode_to_container(artifact, output, overwrite, {.threads = threads});
}

}  // namespace

void bind_onnx(nb::module_& module) {
  module.def(
      "is_onnx", [](const std::string& path) { return is_onnx(path); }, nb::arg("path"));
  module.def(
      "onnx_bytes", [](const std::string& path) { return open_tensors(path).file_bytes; },
      nb::arg("path"));
  module.def("onnx_graph", &onnx_graph, nb::arg("path"));
  module.def("expand_container", &expand_container, nb::arg("path"), nb::arg("output"),
             nb::arg("overwrite"), nb::arg("threads"));
}

}  // namespace gbcompress::python
