#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <map>

#include "artifact/integers/integers.h"
#include "bottleneck/impl.h"
#include "gbcompress/decode.h"
#include "gbcompress/error.h"
#include "gnet/same_spec.h"

namespace gbcompress {
namespace {

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i ? ", " : "") + std::to_string(shape[i]);
  return text + "]";
}

/// What a tensor of a file has that the model's does not; empty where they fit.
/// @param spec  of its g-nets, or null
std::string difference(const ArtifactTensor& stored, const NamedParameter& entry,
                       const GNetSpec* spec) {
  if (stored.shape != entry.info.shape || stored.dtype != entry.info.dtype)
    return "has shape " + shape_text(stored.shape) + " there and " + shape_text(entry.info.shape) +
           " here, or another element type";
  if (stored.kind == TensorKind::kTied ? stored.tied_to != entry.tied_to : !entry.tied_to.empty())
    return "is not tied to the same tensor";
  if (has_spec(stored.kind) != (spec != nullptr) || stored.kind == TensorKind::kPredicted ||
      (spec && !same_but_scale(stored.spec, *spec)))
    return "has other g-nets; use the settings it was saved with, see `gbcompress inspect`";
  return "";
}

}  // namespace

std::vector<std::size_t> GenomicBottleneck::Impl::places_in(const ArtifactReader& artifact,
                                                            const std::string& label) const {
  std::map<std::string, std::size_t> found;
  for (std::size_t i = 0; i < artifact.tensors().size(); ++i) found[artifact.tensors()[i].name] = i;
  const auto refuse = [&](const std::string& what) {
    throw Error(Errc::kShapeMismatch, label + " was not saved from this model: " + what);
  };
  if (found.size() != tensors.size())
    refuse("it holds " + std::to_string(found.size()) + " tensors, the model has " +
           std::to_string(tensors.size()));
  std::vector<std::size_t> layer_of(tensors.size(), generated.layers.size());
  for (std::size_t l = 0; l < generated.layers.size(); ++l)
    layer_of[generated.routes[l].tensor] = l;
  std::vector<std::size_t> places;
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    const std::string& name = tensors[t].info.name;
    const auto at = found.find(name);
    if (at == found.end()) refuse("it lacks " + printable(name));
    const std::size_t l = layer_of[t];
    const bool made = l < generated.layers.size();
    const std::string other = difference(artifact.tensors()[at->second], tensors[t],
                                         made ? &generated.layers[l].spec : nullptr);
    if (!other.empty()) refuse(printable(name) + " " + other);
    places.push_back(at->second);
  }
  return places;
}

void GenomicBottleneck::Impl::take_theta(std::size_t l, const ArtifactReader& artifact,
                                         std::size_t stored) {
  Layer& layer = generated.layers[l];
  layer.spec.output_scale = artifact.tensors()[stored].spec.output_scale;
  const std::vector<float> numbers = artifact.theta(stored);
  std::copy(numbers.begin(), numbers.end(), layer.theta.data_ptr<float>());
  const std::vector<int>& steps = artifact.tensors()[stored].theta_steps;
  for (std::size_t b = 0; integers.of_gnets && b < gnet_blocks(layer.spec).size(); ++b)
    integers.gnets.latents.take_as_is(generated.routes[l].block + b,
                                      steps.empty() ? std::nullopt : std::optional<int>(steps[b]));
}

void GenomicBottleneck::load(const std::filesystem::path& path) {
  const at::NoGradGuard no_grad;
  Impl& impl = *impl_;
  impl.check_tensors();
  const ArtifactReader artifact = ArtifactReader::open(path);
  artifact.verify();
  const std::vector<std::size_t> places = impl.places_in(artifact, printable(path.string()));

  // Nothing can be refused any more.
  std::vector<bool> made(impl.tensors.size(), false);
  for (std::size_t l = 0; l < impl.generated.layers.size(); ++l) {
    const std::size_t t = impl.generated.routes[l].tensor;
    made[t] = true;
    impl.take_theta(l, artifact, places[t]);
  }
  for (std::size_t t = 0; t < impl.tensors.size(); ++t) {
    const ArtifactTensor& stored = artifact.tensors()[places[t]];
    if (made[t] || stored.kind == TensorKind::kTied) continue;
    std::vector<std::byte> bytes = decode_tensor(artifact, places[t]);
    at::Tensor target = impl.tensors[t].tensor;
    target.copy_(at::from_blob(bytes.data(), stored.shape, to_scalar_type(stored.dtype)));
  }
  restart();
  impl.enter(Phase::kExact);
  for (std::size_t c = 0; c < impl.integers.tensors.size(); ++c)
    impl.integers.quantized.latents.take_as_is(c, std::nullopt);
  for (std::size_t c = 0; c < impl.integers.tensors.size(); ++c) {
    const std::size_t at = places[impl.integers.tensors[c]];
    if (has_values(artifact.tensors()[at]))
      impl.integers.quantized.latents.take(c, artifact.coded(at));
  }
  impl.integers.stream.reset();
  impl.predict();
}

}  // namespace gbcompress
