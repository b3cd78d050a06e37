#include <ATen/ATen.h>

#include <map>

#include "artifact/decode.h"
#include "base/text.h"
#include "bottleneck/impl.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.data_ptr()),
          static_cast<std::size_t>(contiguous.nbytes())};
}

std::span<float> floats_of(const at::Tensor& contiguous) {
  return {contiguous.data_ptr<float>(), static_cast<std::size_t>(contiguous.numel())};
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

}  // namespace

void GenomicBottleneck::round_to(Coding coding) {
  if (impl_->coded_gnets) return;  // they are what predict_weights() made of them
  for (Layer& layer : impl_->layers) {
    const std::vector<float> rounded = round_trip(layer.plan, coding, floats_of(layer.theta));
    std::copy(rounded.begin(), rounded.end(), layer.theta.data_ptr<float>());
  }
}

void GenomicBottleneck::write_to(ArtifactWriter& writer, Coding coding) const {
  std::map<std::size_t, std::size_t> generated;
  for (std::size_t l = 0; l < impl_->layers.size(); ++l) generated[impl_->routes[l].tensor] = l;
  std::map<std::size_t, std::size_t> coded;
  for (std::size_t c = 0; c < impl_->coded.size(); ++c) coded[impl_->coded[c]] = c;
  for (std::size_t t = 0; t < impl_->tensors.size(); ++t) {
    const NamedParameter& entry = impl_->tensors[t];
    const ParameterInfo& info = entry.info;
    if (!entry.tied_to.empty()) {
      writer.add_tied(info.name, entry.tied_to);
    } else if (const auto found = generated.find(t); found != generated.end()) {
      const std::size_t l = found->second;
      const Layer& layer = impl_->layers[l];
      if (impl_->coded_gnets != (coding == Coding::kCoded))
        throw Error(Errc::kUsage, impl_->coded_gnets
                                      ? "g-nets that are trained as integers have the coding coded"
                                      : "the coding coded needs g-nets that are trained as "
                                        "integers (coded_gnets)");
      if (const auto& prior = impl_->routes[l].prior)
        writer.add_residual(info.name, info.dtype, info.shape, layer.plan, impl_->coded_theta(l),
                            impl_->residual.latents.coded(*prior));
      else if (coding == Coding::kCoded)
        writer.add_generated_coded(info.name, info.dtype, info.shape, layer.plan,
                                   impl_->coded_theta(l));
      else
        writer.add_generated(info.name, info.dtype, info.shape, layer.plan, coding,
                             floats_of(layer.theta));
    } else if (const auto at = coded.find(t); at != coded.end()) {
      writer.add_coded(info.name, info.dtype, info.shape,
                       impl_->residual.latents.coded(at->second));
    } else {
      const at::Tensor values = entry.tensor.detach().to(to_scalar_type(info.dtype)).contiguous();
      const at::Tensor first = values.numel() > 0 ? values.view(-1)[0] : at::Tensor();
      if (!entry.trainable && first.defined() && values.eq(first).all().item<bool>())
        writer.add_constant(info.name, info.dtype, info.shape, bytes_of(first));
      else
        writer.add_plain(info.name, info.dtype, info.shape, bytes_of(values));
    }
  }
}

std::int64_t GenomicBottleneck::save(const std::filesystem::path& path, Coding coding,
                                     bool overwrite) const {
  ArtifactWriter writer("", "");
  write_to(writer, coding);
  return writer.write(path, overwrite);
}

void GenomicBottleneck::load(const std::filesystem::path& path) {
  const ArtifactReader artifact = ArtifactReader::open(path);
  artifact.verify();
  std::map<std::string, std::size_t> found;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) found[artifact.tensors()[i].name] = i;
  const auto refuse = [&](const std::string& what) {
    throw Error(Errc::kShapeMismatch, path.string() + " was not saved from this model: " + what);
  };
  if (found.size() != impl_->tensors.size())
    refuse("it holds " + std::to_string(found.size()) + " tensors, the model has " +
           std::to_string(impl_->tensors.size()));

  std::map<std::size_t, std::size_t> generated;
  for (std::size_t l = 0; l < impl_->layers.size(); ++l) generated[impl_->routes[l].tensor] = l;
  // Two passes, so that a file that does not fit changes nothing.
  for (const bool apply : {false, true}) {
    for (std::size_t t = 0; t < impl_->tensors.size(); ++t) {
      const NamedParameter& entry = impl_->tensors[t];
      const std::string name = printable(entry.info.name);
      const auto at = found.find(entry.info.name);
      if (at == found.end()) refuse("it lacks " + name);
      const ArtifactTensor& stored = artifact.tensors()[at->second];
      const auto layer = generated.find(t);
      if (!apply) {
        if (stored.shape != entry.info.shape || stored.dtype != entry.info.dtype)
          refuse(name + " has shape " + shape_text(stored.shape) + " there and " +
                 shape_text(entry.info.shape) + " here, or another element type");
        if (stored.kind == TensorKind::kTied ? stored.tied_to != entry.tied_to
                                             : !entry.tied_to.empty())
          refuse(name + " is not tied to the same tensor");
        const bool made = layer != generated.end();
        const bool prior = made && impl_->routes[layer->second].prior;
        if (has_plan(stored.kind) != made || (stored.kind == TensorKind::kResidual) != prior ||
            (made && stored.plan != impl_->layers[layer->second].plan))
          refuse(name +
                 " has another plan; use the settings it was saved with, see `gbcompress "
                 "inspect`");
      } else if (layer != generated.end()) {
        impl_->take_theta(layer->second, artifact, at->second);
      } else if (stored.kind != TensorKind::kTied) {
        const at::NoGradGuard no_grad;
        std::vector<std::byte> bytes = decode_tensor(artifact, at->second);
        at::Tensor target = entry.tensor;
        target.copy_(at::from_blob(bytes.data(), stored.shape, to_scalar_type(stored.dtype)));
      }
    }
  }
  for (std::size_t c = 0; c < impl_->coded.size(); ++c)
    impl_->residual.latents.take(c, std::nullopt);
  predict_weights();  // means first, what is left of them then
  for (std::size_t c = 0; c < impl_->coded.size(); ++c) {
    const std::size_t at = found.at(impl_->tensors[impl_->coded[c]].info.name);
    const TensorKind kind = artifact.tensors()[at].kind;
    if (kind == TensorKind::kCoded || kind == TensorKind::kResidual)
      impl_->take_residual(c, artifact.coded(at));
  }
  reset_optimizers();
  predict_weights();
}

}  // namespace gbcompress
