#include "model/torchscript_model.h"

#include <torch/script.h>
#include <torch/torch.h>

#include <cmath>

#include "gbcompress/error.h"
#include "model/messages.h"
#include "model/norm_eps.h"
#include "model/tensor_facts.h"

namespace gbcompress {
namespace {

/// How a batch is shaped before it goes in; files do not say what they take.
enum class Shaping { kAsGiven, kFlat, kImage };

/// Undefined where the batch cannot be shaped that way, or is so already.
at::Tensor shaped(const at::Tensor& inputs, Shaping shaping) {
  if (shaping == Shaping::kAsGiven) return inputs;
  if (inputs.dim() < 2 || inputs.numel() == 0) return {};
  if (shaping == Shaping::kFlat) return inputs.dim() > 2 ? inputs.flatten(1) : at::Tensor();
  if (inputs.dim() > 2) return {};
  for (std::int64_t planes : {1, 3}) {
    const auto side = static_cast<std::int64_t>(
        std::lround(std::sqrt(static_cast<double>(inputs.size(1)) / static_cast<double>(planes))));
    if (side * side * planes == inputs.size(1)) return inputs.view({-1, planes, side, side});
  }
  return {};
}

class TorchScriptModel : public Model {
 public:
  explicit TorchScriptModel(torch::jit::Module module) : module_(std::move(module)) {
    tensors_ = named_parameters(module_);
    norm_eps_ = gbcompress::norm_eps(module_);
    for (NamedParameter& entry : tensors_)
      if (entry.trainable && entry.tensor.is_floating_point()) entry.tensor.requires_grad_();
  }

  std::string arch() const override { return "torchscript"; }
  bool has_forward() const override { return true; }
  void train(bool on) override { module_.train(on); }
  void freeze_norms() override {
    for (torch::jit::Module module : module_.modules())
      if (module.type()->name() &&
          module.type()->name()->name().find("BatchNorm") != std::string::npos)
        module.train(false);
  }

  at::Tensor forward(const at::Tensor& inputs) override {
    if (known_) return run(shaped(inputs, shaping_), inputs);
    std::string first_reason;
    for (Shaping shaping : {Shaping::kAsGiven, Shaping::kFlat, Shaping::kImage}) {
      const at::Tensor batch = shaped(inputs, shaping);
      if (!batch.defined()) continue;
      try {
        at::Tensor result = run(batch, inputs);
        known_ = true;
        shaping_ = shaping;
        return result;
      } catch (const Error& error) {
        if (first_reason.empty()) first_reason = error.what();
      }
    }
    throw Error(Errc::kShapeMismatch, first_reason);
  }

 private:
  at::Tensor run(const at::Tensor& batch, const at::Tensor& offered) {
    const auto refuse = [&](const std::string& why) {
      return Error(Errc::kShapeMismatch, "the TorchScript model cannot take a batch of shape " +
                                             shape_text(offered.sizes()) + ": " + why);
    };
    // A shaping that worked once need not exist for another batch.
    if (!batch.defined()) throw refuse("earlier batches had another number of dimensions");
    c10::IValue result;
    try {
      result = module_.forward({batch});
    } catch (const std::exception& error) {
      throw refuse(reason(error));
    }
    // Several results: the scores come first by custom.
    if (result.isTuple() && !result.toTupleRef().elements().empty())
      result = c10::IValue(result.toTupleRef().elements()[0]);
    if (!result.isTensor()) throw refuse("its forward returns " + result.tagKind() + ", no tensor");
    at::Tensor scores = result.toTensor();
    if (scores.dim() < 2 || scores.dim() > 3 || scores.size(0) != offered.size(0))
      throw refuse("it returns the shape " + shape_text(scores.sizes()) +
                   " where [batch, classes] or [batch, positions, classes] is needed");
    return scores;
  }

  torch::jit::Module module_;
  Shaping shaping_ = Shaping::kAsGiven;
  bool known_ = false;
};

}  // namespace

std::unique_ptr<Model> open_torchscript(const std::filesystem::path& file) {
  std::unique_ptr<TorchScriptModel> model;
  try {
    model = std::make_unique<TorchScriptModel>(torch::jit::load(file.string(), at::kCPU));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(Errc::kCorrupt, printable(file.string()) +
                                    " looks like TorchScript but cannot be "
                                    "loaded: " +
                                    reason(error));
  }
  bool trainable = false;
  for (const NamedParameter& entry : model->tensors()) trainable |= entry.trainable;
  if (!trainable)
    throw Error(Errc::kUnsupported, printable(file.string()) +
                                        " has no parameters; if it was frozen (torch.jit.freeze), "
                                        "save it before freezing");
  freeze_not_finite(model->tensors());
  return model;
}

}  // namespace gbcompress
