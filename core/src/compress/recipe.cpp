#include "compress/recipe.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "compress/quality/held_out_split.h"
#include "gbcompress/error.h"
#include "train/augment.h"

namespace gbcompress {
namespace {

/// Labels' part of a loss that otherwise follows the given model's outputs. On ResNet-20 0.3 and on
/// a character transformer 0.5 were as good as any.
constexpr double kLabels = 0.4;

/// Batches: so many of them in an epoch where that gives between kLeastBatch and kMostBatch
/// samples, and never more than kMostPredictions (a window of text has many).
constexpr std::int64_t kBatches = 64, kLeastBatch = 32, kMostBatch = 256, kMostPredictions = 4096;

/// Updates of one attempt: the most for a model whose step costs less than kCheapStep
/// multiply-adds, falling with the cube root of the cost to the fewest.
constexpr double kFewestSteps = 1000, kMostSteps = 5000, kCheapStep = 1e8;
constexpr std::int64_t kMostEpochs = 80;

/// Models whose step is cheap are small enough to bear the higher rate.
constexpr double kLearningRate = 1e-3, kCheapLearningRate = 2e-3;

/// Logarithm that a tensor's step must be able to move in an attempt, and the part of the learning
/// rate that a schedule has on average.
constexpr double kStepTravel = 13, kMeanRate = 0.5;
constexpr double kSlowestSteps = 2, kFastestSteps = 12;

/// Lambda where a search begins, for one prediction; it grows with the root of their number.
/// Given models lose about a point at values between 2e-4 (ResNet-20, 8,000 images) and 8e-4 (a
/// digit classifier).
constexpr double kFirstLambda = 4e-4;

/// Samples that tell whether pictures may be moved, pixels that are tried, and the points of
/// accuracy that the model itself may lose by it.
constexpr std::int64_t kTriedSamples = 1000, kMostShift = 2;
constexpr double kHarmless = 5;

thread_local double counted = 0;

double product(c10::IntArrayRef sizes) {
  double n = 1;
  for (const std::int64_t side : sizes) n *= static_cast<double>(side);
  return n;
}

/// Of aten::_convolution's arguments: input, weight, bias, stride, padding, dilation, transposed,
/// ...
double convolution_cost(c10::ArrayRef<const c10::IValue> inputs) {
  if (inputs.size() < 7 || !inputs[0].isTensor() || !inputs[1].isTensor()) return 0;
  const at::Tensor &input = inputs[0].toTensor(), &weight = inputs[1].toTensor();
  const double per_place = product(weight.sizes()) / static_cast<double>(weight.size(0));
  if (inputs[6].toBool()) return product(input.sizes()) * per_place;
  const auto list = [&](std::size_t i, std::size_t axis) {
    const std::vector<std::int64_t> values = inputs[i].toIntVector();
    return values.empty() ? 1 : values[std::min(axis, values.size() - 1)];
  };
  double places = static_cast<double>(input.size(0) * weight.size(0));
  for (std::int64_t side = 2; side < weight.dim(); ++side) {
    const auto axis = static_cast<std::size_t>(side - 2);
    const std::int64_t reach = list(5, axis) * (weight.size(side) - 1);
    places *=
        static_cast<double>((input.size(side) + 2 * list(4, axis) - reach - 1) / list(3, axis) + 1);
  }
  return places * per_place;
}

/// Counts an operation by its name and the shapes of what goes into it.
std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  const auto tensor = [&](std::size_t i) -> const at::Tensor* {
    const auto inputs = function.inputs();
    return i < inputs.size() && inputs[i].isTensor() ? &inputs[i].toTensor() : nullptr;
  };
  const auto matrices = [&](std::size_t first) {
    const at::Tensor *a = tensor(first), *b = tensor(first + 1);
    if (a && b && a->dim() >= 2 && b->dim() >= 2)
      counted += product(a->sizes()) * static_cast<double>(b->size(-1));
  };
  const char* name = function.name();
  if (!std::strcmp(name, "aten::mm") || !std::strcmp(name, "aten::bmm")) matrices(0);
  if (!std::strcmp(name, "aten::addmm") || !std::strcmp(name, "aten::baddbmm")) matrices(1);
  // TorchScript calls it without aten::convolution, which calls it too.
  if (!std::strcmp(name, "aten::_convolution")) counted += convolution_cost(function.inputs());
  return nullptr;
}

bool pictures(const Dataset& data) {
  const at::Tensor inputs = data.range(0, 1).inputs;
  return inputs.dim() == 4 && inputs.scalar_type() == at::kFloat;
}

std::int64_t parameters_of(const Model& model) {
  std::int64_t n = 0;
  for (const NamedParameter& p : model.tensors())
    if (p.trainable && p.tied_to.empty()) n += p.info.elements();
  return n;
}

std::int64_t power_of_two_near(double x) {
  return std::int64_t{1} << std::lround(std::log2(std::max(x, 1.0)));
}

std::int64_t batch_for(const Dataset& train) {
  const std::int64_t wanted = power_of_two_near(static_cast<double>(train.size()) / kBatches);
  const std::int64_t predictions = train.predictions();
  const std::int64_t batch = std::clamp(wanted, kLeastBatch, kMostBatch);
  return std::max<std::int64_t>(1, std::min(batch, kMostPredictions / predictions));
}

}  // namespace

double multiply_adds(Model& model, const Dataset& data) {
  const at::NoGradGuard no_grad;
  const Batch one = data.range(0, 1);
  counted = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  model.train(false);
  try {
    model.forward(one.inputs);
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  return std::max(
      counted, static_cast<double>(parameters_of(model)) * static_cast<double>(data.predictions()));
}

Augmentation harmless_augmentation(Model& model, const Dataset& samples, Metric metric,
                                   std::uint64_t seed, double harmless) {
  Augmentation chosen;
  if (!pictures(samples)) return chosen;
  const Dataset few = some_of(samples, kTriedSamples, seed);
  const Batch all = few.range(0, few.size());
  std::vector<std::int64_t> indices(static_cast<std::size_t>(few.size()));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(i);
  const RandomStream random(seed, "try augmentation");
  const auto quality = [&](const at::Tensor& inputs) {
    return evaluate(model, Dataset(inputs, all.targets), metric);
  };
  const double before = quality(all.inputs);
  const auto same = [&](const at::Tensor& inputs) {
    return metric_drop(metric, before, quality(inputs)) <= harmless;
  };
  const at::Tensor images = all.inputs.contiguous();
  for (std::int64_t shift = 1; shift <= kMostShift; ++shift) {
    if (!same(augmented(images, indices, shift, false, random))) break;
    chosen.shift = shift;
  }
  chosen.flip = same(images.flip({3}));
  return chosen;
}

void choose_recipe(CompressOptions& options, Model& model, const Data& data, const Dataset& train,
                   bool teacher) {
  Choices& choose = options.choose;
  TrainOptions& to = options.train;
  const std::int64_t predictions = train.size() * train.predictions();
  if (choose.loss && teacher && !options.from_scratch) {
    to.loss = Loss::kDistill;
    if (to.labels == 0) to.labels = kLabels;
  }
  if (choose.batch) to.batch = batch_for(train);
  const double step_cost = multiply_adds(model, train) * static_cast<double>(to.batch);
  if (choose.epochs) {
    const double steps =
        std::clamp(kMostSteps * std::cbrt(kCheapStep / step_cost), kFewestSteps, kMostSteps);
    const std::int64_t epochs =
        std::lround(steps * static_cast<double>(to.batch) / static_cast<double>(train.size()));
    to.epochs = std::clamp<std::int64_t>(epochs, 1, kMostEpochs);
  }
  if (choose.learning_rate)
    options.bottleneck.quantized_optimizer.lr =
        step_cost <= kCheapStep ? kCheapLearningRate : kLearningRate;
  if (choose.step_speed) {
    const double steps =
        static_cast<double>(to.epochs) *
        std::ceil(static_cast<double>(train.size()) / static_cast<double>(to.batch));
    const double travel = kMeanRate * options.bottleneck.quantized_optimizer.lr * steps;
    options.bottleneck.step_speed =
        std::clamp(kStepTravel / std::max(travel, 1e-9), kSlowestSteps, kFastestSteps);
  }
  if (choose.augmentation && !options.from_scratch) {
    const Augmentation found = harmless_augmentation(model, train, data.metric, to.seed, kHarmless);
    to.shift = found.shift;
    to.flip = found.flip;
  }
  if (choose.lambda) to.rate.lambda = kFirstLambda * std::sqrt(static_cast<double>(predictions));
  choose = {};
}

}  // namespace gbcompress
