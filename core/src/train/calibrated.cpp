#include "train/calibrated.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/parallel.h"
#include "gbcompress/error.h"
#include "quantize/allocation/plan.h"

namespace gbcompress {
namespace {

/// Steps of vectors beside those of matrices: few numbers that weigh much.
constexpr double kVectorStep = 0.125;
/// The least importance of a tensor, as a share of the largest.
constexpr double kLeastImportance = 1e-6;
/// The largest part of what zeros lose that a tensor may lose; finer steps are tried a quarter of
/// an octave apart.
constexpr double kMostLost = 0.5;
constexpr int kFiner = 4, kFinerTries = 16;

std::span<const float> span_of(const at::Tensor& dense) {
  return {dense.const_data_ptr<float>(), static_cast<std::size_t>(dense.numel())};
}

}  // namespace

std::string Rule::text() const {
  std::string result = !columns ? "nearest integers"
                       : rows   ? "two-sided error feedback"
                                : "error feedback";
  if (refit) result += ", weights refitted";
  if (price > 0) result += ", rounded by rate";
  return result;
}

CalibratedIntegers::CalibratedIntegers(Model& model, std::vector<std::size_t> tensors,
                                       std::vector<IntegerGrid> grids,
                                       SecondOrderStatistics statistics, const Dataset& samples,
                                       double temper, const std::vector<at::Tensor>& values)
    : model_(model),
      tensors_(std::move(tensors)),
      grids_(std::move(grids)),
      statistics_(std::move(statistics)),
      samples_(samples),
      temper_(temper),
      coded_(tensors_.size(), PackedValues(CodedValues())),
      entry_of_(model.tensors().size()) {
  for (std::size_t e = 0; e < tensors_.size(); ++e) {
    entry_of_[tensors_[e]] = e;
    values_.push_back(values.empty()
                          ? model.tensors()[tensors_[e]]
                                .tensor.detach()
                                .to(at::kCPU, at::kFloat)
                                .clone(at::MemoryFormat::Contiguous)
                          : values.at(tensors_[e]).to(at::kCPU, at::kFloat).contiguous());
    numbers_ += values_.back().numel();
    largest_ = std::max(largest_, statistics_.tensors[tensors_[e]].importance);
  }
  // Moments of what is not stored as integers are of no use.
  for (std::size_t t = 0; t < entry_of_.size(); ++t)
    if (!entry_of_[t]) statistics_.tensors[t].moments = {};
  for (auto& group : statistics_.groups)
    std::erase_if(group, [&](std::size_t t) { return !entry_of_[t]; });
  std::erase_if(statistics_.groups, [](const auto& group) { return group.empty(); });
}

void CalibratedIntegers::restore() {
  const at::NoGradGuard no_grad;
  for (std::size_t e = 0; e < tensors_.size(); ++e)
    model_.tensors()[tensors_[e]].tensor.copy_(values_[e]);
}

double CalibratedIntegers::feedback_work() const {
  double work = 0;
  for (std::size_t e = 0; e < tensors_.size(); ++e) {
    const SecondOrder& moments = statistics_.tensors[tensors_[e]].moments;
    const double all = static_cast<double>(grids_[e].size()) / 2;
    if (moments.columns) work += all * static_cast<double>(moments.columns->size());
    if (moments.rows) work += all * static_cast<double>(moments.rows->size());
  }
  return work;
}

int CalibratedIntegers::step_of(std::size_t entry, double x, const Rule& rule) const {
  const auto& [importance, moments, seen] = statistics_.tensors[tensors_[entry]];
  double cost = largest_ > 0 ? std::max(importance / largest_, kLeastImportance) : 1;
  if (rule.columns && moments.columns) cost *= moments.columns->mean_square();
  if (rule.rows && moments.rows) cost *= moments.rows->mean_square();
  const double vector = grids_[entry].rows == 1 ? kVectorStep : 1;
  const double size = std::exp2(x) * vector * std::pow(cost, -temper_ / 2);
  // A quarter of what the coder takes: what is fed back may make a number larger.
  const float magnitude = values_[entry].abs().max().item<float>();
  return std::max(nearest_step(static_cast<float>(size)),
                  nearest_step(4 * magnitude / static_cast<float>(kMaxMagnitude)));
}

void CalibratedIntegers::put(std::size_t entry) {
  const at::NoGradGuard no_grad;
  std::vector<float> numbers = coded_floats(coded_[entry].unpacked());
  at::Tensor live = model_.tensors()[tensors_[entry]].tensor;
  live.copy_(at::from_blob(numbers.data(), live.sizes(), at::kFloat));
}

void CalibratedIntegers::round(std::size_t entry, const at::Tensor& values, SecondOrder moments,
                               double x, const Rule& rule, codec::IntegerChooser* chooser) {
  if (!rule.columns) moments.columns = nullptr;
  if (!rule.rows) moments.rows = nullptr;
  const IntegerGrid& grid = grids_[entry];
  Rounding rounding{
      .step = step_of(entry, x, rule), .chooser = chooser, .price = grid.rows > 1 ? rule.price : 0};
  double all = -1;  // what zeros lose
  for (int tries = 0; tries < kFinerTries; ++tries, rounding.step -= kFiner) {
    double loss = 0;
    CodedValues now = round_with_feedback(grid, span_of(values), moments, rounding, &loss);
    const double error = relative_error(span_of(values), coded_floats(now));
    coded_[entry] = PackedValues(std::move(now));
    if (error <= kMostLost) return;
    if (all < 0) round_with_feedback(grid, span_of(values), moments, {.step = kMaxStep}, &all);
    if (loss <= kMostLost * all) return;
  }
}

void CalibratedIntegers::choose(double x, const Rule& rule) {
  codec::IntegerChooser own;
  codec::IntegerChooser* const chooser = rule.price > 0 ? &own : nullptr;
  std::vector<bool> later(tensors_.size());
  if (rule.refit)
    for (const auto& group : statistics_.groups)
      for (const std::size_t t : group) later[*entry_of_[t]] = true;
  const auto count = static_cast<std::int64_t>(tensors_.size());
  parallel_tasks(chooser ? 1 : at::get_num_threads(), count, [&](std::int64_t i) {
    const auto e = static_cast<std::size_t>(i);
    if (later[e]) return;
    throw_if_interrupted();
    round(e, values_[e], statistics_.tensors[tensors_[e]].moments, x, rule, chooser);
  });
  restore();
  if (rule.refit && !refit_) {
    std::vector<std::size_t> first;
    for (const auto& group : statistics_.groups) first.push_back(group.front());
    refit_.emplace(model_, samples_, std::move(first));
  }
  for (std::size_t e = 0; e < tensors_.size(); ++e)
    if (!later[e]) put(e);
  if (rule.refit) {
    later.flip();
    walk(x, rule, chooser, std::move(later));
  }
}

/// Group after group, in the order in which inputs reach them.
void CalibratedIntegers::walk(double x, const Rule& rule, codec::IntegerChooser* chooser,
                              std::vector<bool> rounded) {
  for (const auto& group : statistics_.groups) {
    if (!refit_->keeps(group.front())) {
      restore();
      refit_->keep(model_, group.front());
      for (std::size_t e = 0; e < tensors_.size(); ++e)
        if (rounded[e]) put(e);
    }
    const Refit::Moments now = refit_->moments(model_, group.front());
    for (const std::size_t t : group) {
      const std::size_t e = *entry_of_[t];
      SecondOrder moments = statistics_.tensors[t].moments;
      moments.columns = now.factor;
      // Zeros stay zeros.
      const at::Tensor fitted = now.fitted(values_[e]);
      const at::Tensor given = values_[e].reshape(fitted.sizes());
      round(e, at::where(given == 0, given, fitted), moments, x, rule, chooser);
      put(e);
      rounded[e] = true;
    }
  }
}

void CalibratedIntegers::choose_again(double x, const Rule& rule,
                                      const std::vector<std::size_t>& tensors) {
  for (const std::size_t t : tensors) {
    if (!entry_of_[t]) continue;
    const at::Tensor now = model_.tensors()[t].tensor.detach().to(at::kFloat).contiguous();
    round(*entry_of_[t], now, {}, x, rule, nullptr);
    put(*entry_of_[t]);
  }
}

}  // namespace gbcompress
