/// Statistics of the allocation's matrices: how they are rounded, and the steps by importance.
#include <algorithm>
#include <cmath>

#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/allocation/bit_allocation.h"
#include "quantize/feedback/trellis_feedback.h"

namespace gbcompress {
namespace {

/// Steps grow with this power of the inverse cost of a squared error, halved.
constexpr double kTemper = 0.75;
/// A cost counts as at least this share of the largest.
constexpr double kLeastCost = 1e-6;
/// Multiplications of the search for dependent integers that are worth their time: some seconds.
constexpr double kMostWork = 4e10;
/// The same of errors that move later rows, one after another.
constexpr double kMostRowWork = 4e9;

/// One entry of the statistics and its place in the allocation.
struct Task {
  std::string name;
  const TensorStatistics* statistics;
  std::size_t first;
  std::optional<std::size_t> second;
  StatisticsUse use;  ///< as far as it concerns the entry
};

/// Cosines have no moments, and their rows are equally important. Rows that would take too long
/// make up for no others.
StatisticsUse use_of(const Task& task, const std::vector<TensorAllocation>& tensors,
                     StatisticsUse use) {
  const auto cosines = [&](std::size_t i) { return tensors[i].axis >= 0; };
  const bool transformed = cosines(task.first) || (task.second && cosines(*task.second));
  if (transformed || use.without_moments.contains(task.name)) use.feedback = use.bias = false;
  if (task.second) use.row_power = use.joint_row_power;
  if (transformed) use.row_power = 0;
  const IntegerGrid& grid = tensors[task.first].grid;
  use.two_sided =
      use.two_sided &&
      static_cast<double>(grid.rows) * static_cast<double>(grid.size()) / 2 <= kMostRowWork;
  return use;
}

/// @throws Error(kShapeMismatch) for a pair of other rows
std::vector<Task> tasks_of(const std::vector<TensorAllocation>& tensors,
                           const OwnedStatistics& statistics, const StatisticsUse& use) {
  std::vector<Task> tasks;
  std::vector<bool> paired(tensors.size());
  for (const auto& [name, of, first, second] : statistics.entries()) {
    const auto coded = [&](std::size_t i) {
      return tensors[i].kind == WeightKind::kMatrix && !tensors[i].constant;
    };
    if (second && tensors[first].grid.rows != tensors[*second].grid.rows)
      throw Error(Errc::kShapeMismatch, "statistics of " + printable(*name) +
                                            ": the two tensors must have equally many rows");
    if (!coded(first) || (second && !coded(*second))) continue;
    if (second) paired[first] = paired[*second] = true;
    tasks.push_back({*name, of, first, second, {}});
  }
  // Moments of a pair replace those of its matrices.
  std::erase_if(tasks, [&](const Task& task) { return !task.second && paired[task.first]; });
  for (Task& task : tasks) task.use = use_of(task, tensors, use);
  return tasks;
}

double sum_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value);
  return sum;
}

/// In which dependent integers are chosen; null where they are independent.
std::shared_ptr<const ColumnOrder> order_of(const Task& task,
                                            const std::vector<TensorAllocation>& tensors,
                                            CodecProfile profile, const WeightsOptions& options) {
  if (options.quantizer != Quantizer::kTrellis || !dependent(*task.statistics, task.use))
    return nullptr;
  std::vector<IntegerGrid> grids{tensors[task.first].grid};
  if (task.second) grids.push_back(tensors[*task.second].grid);
  for (IntegerGrid& grid : grids) {
    grid.dependent = true;
    grid.lanes = profile == CodecProfile::kLanes;
  }
  const auto order = column_order(grids);
  double work = 0;
  if (order)
    for (const ColumnGroup& group : order->groups)
      work += static_cast<double>(static_cast<std::int64_t>(paths_of(grids[0].size())) *
                                  grids[0].rows * group.count) *
              static_cast<double>(group.count) / 2;
  return work > kMostWork ? nullptr : order;
}

/// For each task the first one that has the same moments in the same order.
std::vector<std::size_t> owners_of(const std::vector<Task>& tasks,
                                   const std::vector<FactorSetup>& setups) {
  const auto columns = [&](std::size_t n) {
    return setups[n].order ? setups[n].order->columns : std::vector<std::int64_t>();
  };
  std::vector<std::size_t> owners;
  for (std::size_t n = 0; n < tasks.size(); ++n) {
    const TensorStatistics& own = *tasks[n].statistics;
    std::size_t owner = tasks[n].use.feedback ? 0 : n;
    while (owner < n &&
           (own.input_moment.empty() || !tasks[owner].use.feedback || own.groups != 1 ||
            owners[owner] != owner || tasks[owner].statistics->groups != 1 ||
            tasks[owner].statistics->input_moment != own.input_moment ||
            columns(owner) != columns(n)))
      ++owner;
    owners.push_back(owner);
  }
  return owners;
}

/// What the statistics say of a tensor, or of two.
void use_task(std::vector<TensorAllocation>& tensors, const Task& task, FactorSetup setup,
              const OwnedStatistics& statistics) {
  TensorAllocation& first = tensors[task.first];
  const StatisticsUse& use = task.use;
  std::int64_t cols = first.grid.cols;
  if (task.second) cols += tensors[*task.second].grid.cols;
  std::vector<float> importance =
      importance_of_rows(statistics.importance(task.first), first.grid.rows);
  if (task.second) {
    const std::vector<float> of_second =
        importance_of_rows(statistics.importance(*task.second), first.grid.rows);
    if (of_second.size() != importance.size()) importance.clear();
    for (std::size_t i = 0; i < importance.size(); ++i) importance[i] += of_second[i];
  }
  RoundingModel model = rounding_model(task.name, *task.statistics, first.grid.rows, cols,
                                       importance, use, std::move(setup));
  model.second = task.second;
  if (first.model && !task.second && !model.has_feedback()) {
    // Importance alone: moments stay those that are likely.
    model.groups = first.model->groups;
    model.pieces = first.model->pieces;
    model.mean_square = first.model->mean_square;
  }
  first.model = std::make_shared<const RoundingModel>(std::move(model));
  if (!first.model->row_steps.empty()) first.facts.row_steps = first.model->row_steps;
  if (!task.second) return;
  TensorAllocation& second = tensors[*task.second];
  second.second = true;
  second.facts.row_steps = first.facts.row_steps;
}

}  // namespace

void BitAllocation::use_statistics(const WeightsOptions& options) {
  const std::vector<Task> tasks = tasks_of(tensors_, measured_, options.statistics_use);
  std::vector<FactorSetup> setups;
  for (const Task& task : tasks)
    setups.push_back({.order = order_of(task, tensors_, profile_, options)});
  const std::vector<std::size_t> owners = owners_of(tasks, setups);
  // Factors first that others share; large ones have all threads.
  for (const bool own : {true, false}) {
    std::vector<std::int64_t> sizes;
    for (std::size_t n = 0; n < tasks.size(); ++n)
      sizes.push_back((owners[n] == n) == own
                          ? static_cast<std::int64_t>(tasks[n].statistics->input_moment.size())
                          : 0);
    for_bounded(sizes, threads_, [&](std::size_t n, int threads) {
      if ((owners[n] == n) != own) return;
      setups[n].threads = threads;
      if (!own) setups[n].columns = tensors_[tasks[owners[n]].first].model->groups[0].columns;
      use_task(tensors_, tasks[n], std::move(setups[n]), measured_);
    });
  }
  balance(options);
}

/// Steps by importance, where it is known, around those without data, which the others keep.
void BitAllocation::balance(const WeightsOptions& options) {
  if (!options.statistics_use.tensor_steps) return;
  std::vector<double> costs(tensors_.size());
  double largest = 0;
  const auto cost_of = [&](std::size_t i, const RoundingModel& model) {
    return sum_of(measured_.importance(i)) / static_cast<double>(tensors_[i].grid.size()) *
           model.mean_square * model.row_cost;
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const TensorAllocation& tensor = tensors_[i];
    if (!tensor.model) continue;
    costs[i] = cost_of(i, *tensor.model);
    if (const auto second = tensor.model->second) costs[*second] = cost_of(*second, *tensor.model);
  }
  for (const double cost : costs) largest = std::max(largest, cost);
  if (largest <= 0) return;
  double numbers = 0, apart = 0;
  std::vector<double> factors(tensors_.size());
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (costs[i] <= 0) continue;
    factors[i] = -kTemper / 2 * std::log2(std::max(costs[i], kLeastCost * largest));
    const auto n = static_cast<double>(tensors_[i].facts.numbers);
    numbers += n;
    apart += n * (tensors_[i].factor - factors[i]);
  }
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (costs[i] > 0) tensors_[i].factor = factors[i] + apart / numbers;
}

}  // namespace gbcompress
