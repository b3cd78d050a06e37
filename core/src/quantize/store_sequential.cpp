/// Integers of matrices that are quantized one after another, each for the inputs that the
/// quantized layers before it give.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <utility>

#include "base/checked.h"
#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/store.h"

namespace gbcompress {
namespace {

/// Damping of moments, in means of their diagonals: more than where all samples tell them.
constexpr double kDamp = 0.05;
/// Rows that are fitted together by one thread.
constexpr std::int64_t kRows = 32;

void check(const SequentialInputs& inputs, const std::string& name, std::int64_t cols) {
  const auto n = static_cast<std::size_t>(cols);
  if (inputs.moment.size() != n * n || inputs.cross.size() != n * n || inputs.mean.size() != n ||
      inputs.mean_before.size() != n)
    throw Error(Errc::kShapeMismatch, "inputs of " + printable(name) + " do not fit the tensor");
  const auto finite = [](const std::vector<float>& values) {
    return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
  };
  if (!finite(inputs.moment) || !finite(inputs.cross))
    throw Error(Errc::kNonFinite, "inputs of " + printable(name) +
                                      " are not finite once the layers before it are quantized");
}

/// Columns of a matrix in the order in which they are rounded, and the factor of their moment.
struct OrderedFactor {
  std::vector<std::int64_t> order;
  std::shared_ptr<const UpperFactor> factor;
};

/// W + W (C - H) (H + damping)^-1, whose outputs for the inputs as they are now are nearest to
/// those of W for the original ones; zeros stay zeros.
/// @param weights  [rows, cols]
/// @param cross    C - H, [cols, cols]
std::vector<float> fitted(const std::vector<float>& weights, const std::vector<float>& cross,
                          const OrderedFactor& ordered, int threads) {
  const std::size_t cols = ordered.order.size();
  const auto rows = static_cast<std::int64_t>(weights.size() / cols);
  std::vector<float> result = weights;
  parallel_tasks(threads, (rows + kRows - 1) / kRows, [&](std::int64_t part) {
    std::vector<double> change(cols), moved(cols);
    for (std::int64_t row = part * kRows; row < std::min(rows, (part + 1) * kRows); ++row) {
      const std::size_t first = static_cast<std::size_t>(row) * cols;
      std::ranges::fill(change, 0);
      for (std::size_t i = 0; i < cols; ++i) {
        const auto weight = static_cast<double>(weights[first + i]);
        if (weight == 0) continue;
        const float* const of = cross.data() + i * cols;
        for (std::size_t j = 0; j < cols; ++j) change[j] += weight * static_cast<double>(of[j]);
      }
      for (std::size_t j = 0; j < cols; ++j)
        moved[j] = change[static_cast<std::size_t>(ordered.order[j])];
      ordered.factor->solve(moved);
      for (std::size_t j = 0; j < cols; ++j) {
        float& value = result[first + static_cast<std::size_t>(ordered.order[j])];
        if (value != 0) value += static_cast<float>(moved[j]);
      }
    }
  });
  return result;
}

}  // namespace

bool WeightsStore::in_sequence(std::size_t i) const {
  const TensorAllocation& tensor = allocation_.tensors()[i];
  return tensor.model && !tensor.assumed && !tensor.second && !tensor.model->second &&
         tensor.model->groups.size() == 1 && tensor.model->groups[0].columns && !exact_[i];
}

void WeightsStore::show_placed() {
  const auto put = [&](std::size_t i, const std::vector<float>& numbers) {
    options_.sequential->put(allocation_.tensors()[i].source->name, numbers);
  };
  for (const auto& [i, numbers] : shown_) put(i, numbers);
  // A model may hold copies of what is stored once.
  for (std::size_t i = 0; i < allocation_.tensors().size(); ++i)
    if (const auto owner = allocation_.tensors()[i].tied; owner && shown_.contains(*owner))
      put(i, shown_.at(*owner));
  shown_.clear();
}

void WeightsStore::place_group(const std::string& name, const std::vector<std::size_t>& group,
                               double x) {
  const SequentialInputs inputs = options_.sequential->inputs(name);
  check(inputs, name, allocation_.tensors()[group.front()].grid.cols);
  std::vector<OrderedFactor> factors;
  const auto factor_of = [&](const TensorAllocation& tensor) -> const OrderedFactor& {
    std::vector<std::int64_t> order(static_cast<std::size_t>(tensor.grid.cols));
    for (std::size_t j = 0; j < order.size(); ++j) order[j] = static_cast<std::int64_t>(j);
    if (tensor.model->order) order = tensor.model->order->columns;
    for (const OrderedFactor& each : factors)
      if (each.order == order) return each;
    const std::vector<float> moment = gbcompress::ordered(inputs.moment, order);
    factors.push_back({order, std::make_shared<const UpperFactor>(std::span<const float>(moment),
                                                                  tensor.grid.cols, kDamp,
                                                                  allocation_.threads())});
    return factors.back();
  };
  for (const std::size_t i : group) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    const OrderedFactor& ordered = factor_of(tensor);
    RoundingModel model = *tensor.model;
    model.groups[0].columns = ordered.factor;
    place_calibrated(
        {i, model, fitted(tensor.numbers(), inputs.cross, ordered, allocation_.threads()),
         inputs.mean, inputs.mean_before},
        x, allocation_.threads());
  }
  put_biases();
  show_placed();
}

std::int64_t WeightsStore::place_in_sequence(double x) {
  std::map<std::string, std::size_t, std::less<>> index;
  for (std::size_t i = 0; i < allocation_.tensors().size(); ++i) {
    const TensorAllocation& tensor = allocation_.tensors()[i];
    const std::size_t owner = tensor.tied.value_or(i);
    if (in_sequence(owner)) index[tensor.source->name] = owner;
  }
  std::vector<std::pair<std::string, std::vector<std::size_t>>> groups;
  std::vector<std::int64_t> sizes = matrix_sizes();
  for (const std::vector<std::string>& names : options_.sequential->groups()) {
    std::vector<std::size_t> group;
    for (const std::string& name : names)
      if (const auto at = index.find(name); at != index.end() && sizes[at->second] > 0) {
        group.push_back(at->second);
        sizes[at->second] = 0;
      }
    if (!group.empty()) groups.emplace_back(names.front(), std::move(group));
  }
  options_.sequential->begin();
  asked_.assign(asked_.size(), std::nullopt);
  for_matrices(sizes, [&](std::size_t i, int threads) { place_one(i, x, threads); });
  put_biases();
  show_placed();
  for (const auto& [name, group] : groups) {
    throw_if_interrupted();
    place_group(name, group, x);
  }
  return writer_.size();
}

}  // namespace gbcompress
