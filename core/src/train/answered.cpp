#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <utility>

#include "gbcompress/error.h"
#include "gbcompress/train.h"
#include "model/forward_pass.h"
#include "train/measure.h"

namespace gbcompress {
namespace {

/// Numbers that are kept of a split: 4 bytes each.
constexpr std::int64_t kMostAnswers = std::int64_t{1} << 28;

Dataset answers_to(Model& original, const Dataset& split, bool classes) {
  std::vector<at::Tensor> answers;
  std::int64_t numbers = 0;
  const std::int64_t pass = samples_a_pass(split);
  for (std::int64_t first = 0; first < split.size(); first += pass) {
    throw_if_interrupted();
    const at::Tensor inputs = split.range(first, std::min(pass, split.size() - first)).inputs;
    const at::Tensor outputs = original.forward(inputs).to(at::kFloat);
    if (!at::isfinite(outputs.sum()).item<bool>())
      throw Error(Errc::kNonFinite, "the original's outputs for rows " + std::to_string(first) +
                                        " to " + std::to_string(first + inputs.size(0) - 1) +
                                        " are not finite; leave these inputs out");
    answers.push_back(classes ? outputs.argmax(-1) : outputs);
    numbers += answers.back().numel();
    if (numbers > kMostAnswers)
      throw Error(Errc::kUsage,
                  "the original's outputs for these inputs take more than 1 GiB of memory; give "
                  "fewer inputs");
  }
  return Dataset(split.everything().inputs, at::cat(answers));
}

}  // namespace

Data answered(Model& original, Data data) {
  if (data.has_targets) return data;
  require_forward(original, "so its outputs for these inputs are unknown",
                  ", or use the module in Python (gbcompress.calibrate(model, batches, FILE))");
  check_measurable(original, data.test);
  const at::NoGradGuard no_grad;
  original.train(false);
  const bool classes = data.metric == Metric::kAccuracy;
  data.train = answers_to(original, data.train, classes);
  data.test = answers_to(original, data.test, classes);
  if (classes) data.classes = original.forward(data.test.range(0, 1).inputs).size(-1);
  data.has_targets = true;
  return data;
}

}  // namespace gbcompress
