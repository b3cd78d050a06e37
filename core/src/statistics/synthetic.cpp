#include "statistics/synthetic.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <numbers>

#include "base/random.h"
#include "gbcompress/error.h"
#include "gbcompress/optimizer.h"
#include "model/forward_pass.h"
#include "statistics/norm_inputs.h"

namespace gbcompress {
namespace {

/// Rows in all, of which some are set aside; rows at a time, as each takes the memory of a backward
/// pass; steps of Adam, and its learning rate for inputs of variance 1.
constexpr std::int64_t kInputs = 64, kTestInputs = 16, kAtOnce = 16, kInputSteps = 100;
constexpr double kInputRate = 0.1;
constexpr std::int64_t kUsualSide = 128;

/// How far the inputs of all batch norms are from their running statistics, added up during a pass
/// of this thread.
class NormDistance {
 public:
  explicit NormDistance(const Model& model)
      : NormDistance(model, find_batch_norms(model.tensors())) {}

  bool any() const { return !wanted_.empty(); }
  void reset() { total_ = at::Tensor(); }
  /// Undefined where no norm was called; throws what the observation of a pass threw.
  const at::Tensor& total() {
    seen_.check();
    return total_;
  }

 private:
  struct Statistics {
    at::Tensor mean, variance;
  };
  NormDistance(const Model& model, const std::vector<BatchNorm>& norms)
      : seen_(model, norms, [this](const NormCall& call) { add(call); }) {
    for (const BatchNorm& norm : norms) {
      const auto tensor = [&](BatchNorm::Vector which) {
        return model.tensors()[norm.tensors[which]].tensor.detach().to(at::kFloat);
      };
      wanted_.push_back({tensor(BatchNorm::kMean), tensor(BatchNorm::kVariance)});
    }
  }
  void add(const NormCall& call) {
    const at::AutoGradMode with_grad(true);
    const auto& [own_mean, own_variance] = wanted_[call.norm];
    const at::Tensor rows = call.input.to(at::kFloat).transpose(0, 1).flatten(1);
    const at::Tensor deviation = rows.var(1, /*unbiased=*/false).clamp_min(1e-8).sqrt();
    const at::Tensor of_mean = ((rows.mean(1) - own_mean).square() / (own_variance + 1e-5)).mean();
    const at::Tensor of_deviation = (deviation / (own_variance + 1e-8).sqrt() - 1).square().mean();
    const at::Tensor sum = of_mean + of_deviation;
    total_ = total_.defined() ? total_ + sum : sum;
  }

  std::vector<Statistics> wanted_;  ///< one a norm
  at::Tensor total_;
  NormInputs seen_;
};

void check(const Model& model) {
  require_forward(model, "so inputs cannot be fitted to it",
                  ", or leave `data` out for data-free quantization");
  for (const NamedParameter& p : model.tensors()) {
    const std::string& type = p.info.module_type;
    if (type.find("LSTM") != std::string::npos || type.find("GRU") != std::string::npos ||
        type.find("RNN") != std::string::npos)
      throw Error(Errc::kUsage, printable(p.info.name) + " belongs to a recurrent layer (" + type +
                                    "), and synthetic inputs do such models harm; calibrate with "
                                    "real inputs, or leave `data` out");
  }
}

std::vector<std::int64_t> shape_of(const Model& model) {
  if (!model.input_shape().empty()) return model.input_shape();
  for (const NamedParameter& p : model.tensors())
    if (p.trainable && p.info.shape.size() == 4) return {p.info.shape[1], kUsualSide, kUsualSide};
  throw Error(Errc::kUsage,
              "the shape of an input does not follow from the model; give it: `data` "
              "synthetic:3x224x224");
}

/// Noise of the spectrum 1/f along the dimensions behind the first two, of variance 1.
at::Tensor pink_noise(const std::vector<std::int64_t>& sizes, const RandomStream& random) {
  at::Tensor noise = at::empty(sizes, at::kFloat);
  random.fill_normal({noise.data_ptr<float>(), static_cast<std::size_t>(noise.numel())}, 0, 1);
  if (sizes.size() < 3) return noise;
  std::vector<std::int64_t> dims;
  at::Tensor squares = at::zeros(std::vector<std::int64_t>(sizes.begin() + 2, sizes.end()));
  for (std::size_t d = 2; d < sizes.size(); ++d) {
    dims.push_back(static_cast<std::int64_t>(d));
    std::vector<std::int64_t> line(sizes.size() - 2, 1);
    line[d - 2] = sizes[d];
    squares = squares + at::fft_fftfreq(sizes[d]).view(line).square();
  }
  const double least = 1.0 / static_cast<double>(sizes.back());
  const at::Tensor spectrum =
      at::fft_fftn(noise, c10::nullopt, dims) * (squares + least * least).rsqrt();
  const at::Tensor values = at::real(at::fft_ifftn(spectrum, c10::nullopt, dims)).contiguous();
  return values / values.std();
}

/// @return the same inputs, fitted
at::Tensor fitted(Model& model, NormDistance& distance, const at::Tensor& start,
                  std::int64_t rows_done, const StepSink& sink) {
  const at::AutoGradMode with_grad(true);
  at::Tensor inputs = start.clone().requires_grad_();
  AdamW adam({inputs}, {.lr = kInputRate, .beta2 = 0.999, .weight_decay = 0});
  for (std::int64_t step = 0; step < kInputSteps; ++step) {
    throw_if_interrupted();
    distance.reset();
    inputs.mutable_grad().reset();
    model.forward(inputs);
    const at::Tensor total = distance.total();
    if (!total.defined() || !total.requires_grad())
      throw Error(Errc::kUsage,
                  "the model's batch norms do not see its input, so nothing can be fitted to them; "
                  "calibrate with real inputs, or leave `data` out");
    total.backward();
    adam.step({inputs.grad()});
    if (sink)
      sink(rows_done / kAtOnce * kInputSteps + step + 1, kInputs / kAtOnce * kInputSteps,
           total.item<double>());
  }
  return inputs.detach();
}

/// The parameters take no gradients while this lives.
class Frozen {
 public:
  explicit Frozen(Model& model) : model_(model) { set(false); }
  ~Frozen() { set(true); }
  Frozen(const Frozen&) = delete;
  Frozen& operator=(const Frozen&) = delete;

 private:
  void set(bool on) {
    for (NamedParameter& p : model_.tensors())
      if (p.trainable && p.tensor.is_leaf() && p.tensor.is_floating_point())
        p.tensor.requires_grad_(on);
  }
  Model& model_;
};

}  // namespace

Data fit_inputs(Model& model, std::vector<std::int64_t> shape, std::uint64_t seed,
                const StepSink& sink) {
  check(model);
  model.train(false);
  NormDistance distance(model);
  if (!distance.any())
    throw Error(Errc::kUsage,
                "the model has no batch norm with running statistics, which inputs would be fitted "
                "to; calibrate with real inputs, or leave `data` out");
  if (shape.empty()) shape = shape_of(model);
  const at::Device device = model.tensors().front().tensor.device();
  std::vector<at::Tensor> parts;
  {
    const Frozen frozen(model);
    for (std::int64_t first = 0; first < kInputs; first += kAtOnce) {
      std::vector<std::int64_t> sizes = shape;
      sizes.insert(sizes.begin(), kAtOnce);
      const RandomStream random(seed, "synthetic", "", static_cast<std::uint64_t>(first));
      parts.push_back(
          fitted(model, distance, pink_noise(sizes, random).to(device), first, sink).to(at::kCPU));
    }
  }
  const at::Tensor all = at::cat(parts), none = at::zeros({kInputs}, at::kLong);
  const std::int64_t train = kInputs - kTestInputs;
  Data data{"synthetic", Dataset(all.narrow(0, 0, train), none.narrow(0, 0, train)),
            Dataset(all.narrow(0, train, kTestInputs), none.narrow(0, train, kTestInputs))};
  data.has_targets = false;
  return data;
}

}  // namespace gbcompress
