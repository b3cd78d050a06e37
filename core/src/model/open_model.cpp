#include "format/file_kind.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gbcompress/model.h"
#include "model/module_model.h"
#include "model/state_dict_model.h"
#include "model/torchscript_model.h"

namespace gbcompress {
namespace {

std::unique_ptr<Model> build_and_load(const std::string& arch,
                                      const std::vector<NamedParameter>& values,
                                      const std::vector<ParameterInfo>& weights,
                                      const Registry& registry) {
  std::unique_ptr<Model> model = build_for(arch, weights, registry);
  load_tensors(*model, values);
  return model;
}

/// "; they fit --arch lenet5", or "" where no architecture takes these tensors as it is.
std::string better_arch(const std::vector<NamedParameter>& values,
                        const std::vector<ParameterInfo>& weights, const Registry& registry) {
  for (const std::string& name : known_architectures(registry)) {
    try {
      build_and_load(name, values, weights, registry);
      return "\nthey fit `arch` " + name;
    } catch (const std::exception&) {
      // Not this one. A factory may also simply need options.
    }
  }
  return "";
}

/// @param file  for messages
std::unique_ptr<Model> fitted(const std::string& arch, const std::vector<NamedParameter>& values,
                              const std::filesystem::path& file, const Registry& registry) {
  std::vector<ParameterInfo> weights;
  for (const NamedParameter& value : values) weights.push_back(value.info);
  try {
    return build_and_load(arch, values, weights, registry);
  } catch (const Error& error) {
    if (error.code() != Errc::kShapeMismatch) throw;
    throw Error(error.code(), printable(file.string()) + ": " + error.what() +
                                  better_arch(values, weights, registry));
  }
}

}  // namespace

std::unique_ptr<Model> open_model(const std::filesystem::path& file, const std::string& arch,
                                  const Registry& registry, const OpenOptions& options) {
  if (sniff(file) == FileKind::kTorchScript) {
    if (!options.part.empty())
      throw Error(Errc::kUsage, printable(file.string()) +
                                    " is TorchScript, one program without parts to choose from");
    if (!arch.empty())
      throw Error(Errc::kUsage, printable(file.string()) +
                                    " is TorchScript and brings its own code; leave out `arch` " +
                                    printable(arch));
    return open_torchscript(file);
  }
  if (is_onnx(file) || is_gguf(file))
    throw Error(Errc::kUnsupported,
                printable(file.string()) + (is_gguf(file) ? " is a GGUF" : " is an ONNX") +
                    " model, which is not run here; compress, expand, compare and "
                    "inspect take it");
  std::vector<std::string> notes;
  std::vector<NamedParameter> values = read_tensors(file, options, &notes);
  std::unique_ptr<Model> model = arch.empty() ? std::make_unique<StateDictModel>(std::move(values))
                                              : fitted(arch, values, file, registry);
  model->set_notes(std::move(notes));
  return model;
}

}  // namespace gbcompress
