// What `inspect` needs LibTorch for: TorchScript, and the g-nets that a model would get.
#include "exit_status.h"
#include "gbcompress/model.h"
#include "listing.h"
#include "model_gnets.h"
#include "torch_module.h"

namespace gbcompress::cli {
namespace {

namespace fs = std::filesystem;

Listing list_torchscript(const fs::path& file) {
  Listing result{.format = "torchscript",
                 .file_bytes = static_cast<std::int64_t>(fs::file_size(file)),
                 .column = "module"};
  const auto model = open_model(file, "", Registry());
  for (const NamedParameter& each : model->tensors())
    result.tensors.push_back({each.info.name, each.info.module_type, each.info.dtype,
                              each.info.shape,
                              each.info.elements() * dtype_bits(each.info.dtype) / 8});
  return result;
}

}  // namespace

int inspect_with_torch(const Arguments& arguments) {
  const fs::path file = arguments.words()[0];
  if (arguments.has("plan"))
    show_gnets(arguments, file);
  else {
    Report page(arguments, "inspect", file.string());
    print_listing(file, list_torchscript(file), arguments.json(), page);
  }
  return kDone;
}

}  // namespace gbcompress::cli
