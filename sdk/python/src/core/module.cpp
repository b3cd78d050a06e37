#include "module.h"

#include "gbcompress/tensors.h"
#include "gbcompress/version.h"

namespace gbcompress::python {

NB_MODULE(_core, module) {
  module.attr("__version__") = GBC_VERSION_STRING;
  bind_errors(module);
  bind_calibrate(module);
  bind_coded_gnets(module);
  bind_decoding(module);
  bind_files(module);
  bind_fixed_width(module);
  bind_gnets(module);
  bind_onnx(module);
  bind_save(module);
  bind_search(module);
  bind_writer(module);
  bind_rate(module);
  bind_step(module);
  bind_stream(module);
}

}  // namespace gbcompress::python
