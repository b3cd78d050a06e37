#include "statistics/collect.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "statistics/calibrate.h"
#include "statistics/layer_inputs.h"

namespace gbcompress {
namespace {

class Collection {
 public:
  Collection(Model& model, const Dataset& samples)
      : model_(model),
        samples_(samples),
        importance_(model.tensors().size()),
        between_(model.tensors().size()) {
    take_narrow();
  }

  Statistics run(std::uint64_t seed) {
    for_drawn_gradients(
        model_, samples_, 0, samples_.size(), seed, [&] { add_gradients(); },
        [&](const at::Tensor& inputs) { return forward(inputs); });
    Statistics statistics;
    const std::map<std::string, std::size_t> places = places_of_names();
    for (const auto& [name, sums] : sums_) {
      if (!sums.moment.defined()) continue;
      TensorStatistics& each = statistics.tensors[name];
      each.input_moment = floats_of(sums.moment / sums.count);
      if (name.find('|') != std::string::npos) continue;
      each.input_mean = floats_of(sums.sum / sums.count);
      const at::Tensor& between = between_[places.at(name)];
      if (between.defined()) each.output_moment = floats_of(between);
    }
    for (std::size_t i = 0; i < importance_.size(); ++i)
      if (importance_[i].defined())
        statistics.tensors[name_of(i)].row_importance = floats_of(importance_[i]);
    return statistics;
  }

 private:
  struct Sums {
    at::Tensor moment, sum;  ///< float32 [n, n], float64 [n], on the
                             ///< model's device; undefined where they are not taken
    double count = 0;
  };

  std::map<std::string, std::size_t> places_of_names() const {
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < model_.tensors().size(); ++i) places[name_of(i)] = i;
    return places;
  }

  /// Room for moments between rows, of the matrices with the fewest first.
  void take_narrow() {
    std::vector<std::pair<std::int64_t, std::size_t>> rows;
    for (std::size_t i = 0; i < between_.size(); ++i)
      if (is_matrix(model_.tensors()[i])) rows.emplace_back(model_.tensors()[i].info.shape[0], i);
    std::ranges::sort(rows);
    std::int64_t numbers = 0;
    for (const auto& [count, i] : rows) {
      numbers += count * count;
      if (count > kWidest || numbers > kMostNumbers) return;
      between_[i] =
          at::zeros({count, count},
                    model_.tensors()[i].tensor.options().dtype(at::kFloat).requires_grad(false));
    }
  }

  const std::string& name_of(std::size_t tensor) const {
    return model_.tensors()[tensor].info.name;
  }

  void add(const std::string& name, const at::Tensor& rows) {
    const at::NoGradGuard no_grad;
    const auto [at, is_new] = sums_.try_emplace(name);
    Sums& sums = at->second;
    const std::int64_t n = rows.size(1);
    if (is_new && n <= kWidest && elements_ + n * n <= kMostNumbers) {
      elements_ += n * n;
      sums.moment = at::zeros({n, n}, rows.options());
      sums.sum = at::zeros({n}, rows.options().dtype(at::kDouble));
    }
    if (!sums.moment.defined()) return;
    sums.moment.addmm_(rows.t(), rows);
    sums.sum += rows.sum(0, /*keepdim=*/false, at::kDouble);
    sums.count += static_cast<double>(rows.size(0));
  }

  at::Tensor forward(const at::Tensor& inputs) {
    const std::int64_t most =
        std::max<std::int64_t>(1, kInputRows * inputs.size(0) / samples_.size());
    LayerInputs seen(
        model_.tensors(),
        [&](const LayerCall& call) {
          const ParameterInfo& info = model_.tensors()[call.tensor].info;
          if (call.groups > 1 || info.elements() > kWidest * info.shape[0]) return;
          add(info.name, call.rows(most));
        },
        [&](const RecurrentCall& call) {
          add(name_of(call.input_weight) + "|" + name_of(call.hidden_weight), call.rows);
        });
    const at::Tensor output = model_.forward(inputs);
    seen.check();
    return output;
  }

  void add_gradients() {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < importance_.size(); ++i) {
      const NamedParameter& p = model_.tensors()[i];
      if (!is_matrix(p) || !p.tensor.grad().defined()) continue;
      squared_gradient(p);  // refuses what is not finite
      const at::Tensor gradient = p.tensor.grad().to(at::kFloat).flatten(1);
      const at::Tensor rows = gradient.square().sum(1, /*keepdim=*/false, at::kDouble);
      importance_[i] = importance_[i].defined() ? importance_[i] + rows : rows;
      if (between_[i].defined()) between_[i].addmm_(gradient, gradient.t());
    }
  }

  Model& model_;
  const Dataset& samples_;
  std::vector<at::Tensor> importance_;  ///< float64 [rows]
  std::vector<at::Tensor> between_;     ///< moments of rows, [rows, rows]; or undefined
  std::map<std::string, Sums> sums_;    ///< by name
  std::int64_t elements_ = 0;           ///< of all moments
};

}  // namespace

std::vector<float> floats_of(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.to(at::kCPU, at::kFloat).contiguous();
  const float* const first = dense.const_data_ptr<float>();
  return {first, first + dense.numel()};
}

Statistics collect_statistics(Model& model, const Dataset& samples, std::uint64_t seed) {
  return Collection(model, samples).run(seed);
}

}  // namespace gbcompress
