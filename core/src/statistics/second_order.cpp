#include "statistics/second_order.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "gbcompress/device.h"
#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "statistics/calibrate.h"
#include "statistics/layer_inputs.h"

namespace gbcompress {
namespace {

/// A batch's gradient by a matrix [m, n] that meets k rows has at most rank k: where k is at most
/// this part of m and of n, its moments follow from k columns.
constexpr std::int64_t kLowRank = 4;
/// Of the gradient's squares those columns may lack: more, and the weight was used otherwise too.
constexpr double kLacking = 1e-4, kRankDamp = 1e-7;
/// Parts of the samples that ranks share: as many as sums that are open together stay few.
constexpr int kShards = 8;

struct Sums {
  at::Tensor columns, rows;  ///< float32; undefined where they are not taken
};

/// [rows, everything else]
at::Tensor as_matrix(const at::Tensor& tensor) {
  return tensor.to(at::kFloat).reshape({tensor.size(0), -1});
}

class Collector {
 public:
  Collector(Model& model, const Dataset& samples, Group* group, std::int64_t at_once)
      : model_(model), samples_(samples), group_(group), at_once_(at_once) {
    result_.tensors.resize(model.tensors().size());
    sums_.resize(model.tensors().size());
    rows_.resize(model.tensors().size());
  }

  SecondOrderStatistics run(std::uint64_t seed) {
    find_uses();
    // More ranks than parts: each sums up everything.
    if (group_ && (group_->world() == 1 || group_->world() > kShards)) group_ = nullptr;
    const std::vector<Wanted> wanted = find_wanted();
    auto first = wanted.begin();
    do {
      // At least one matrix a pass.
      auto last = first;
      for (std::int64_t used = 0;
           last != wanted.end() && (last == first || used + last->n * last->n <= at_once_); ++last)
        used += last->n * last->n;
      pass({first, last}, seed);
      first = last;
      weighed_ = true;
    } while (first != wanted.end());
    return std::move(result_);
  }

 private:
  /// Moments [n, n] of a matrix.
  struct Wanted {
    std::size_t tensor;
    bool columns;
    std::int64_t n;
  };

  /// Moments of a group of matrices, from all samples; the first pass takes importance too.
  void pass(std::span<const Wanted> wanted, std::uint64_t seed) {
    reserve(wanted);
    gradients_ = !weighed_ || std::ranges::any_of(wanted, [&](const Wanted& each) {
      return !each.columns || !result_.tensors[each.tensor].seen;
    });
    {
      FixedSum sum(host_.numel(), group_ ? shards_of(group_->rank(), group_->world(), kShards)
                                         : ShardRange{0, kShards});
      for (int i = 0; i < sum.own().count; ++i) add_shard(sum.own().first + i, seed, sum);
      add_up(sum);
    }
    view_sums(wanted, host_);
    factor(wanted);
    for (const Wanted& each : wanted) sums_[each.tensor] = {};
    all_ = host_ = at::Tensor();
  }

  /// What a part of the samples says, as one leaf of a tree.
  void add_shard(std::int64_t shard, std::uint64_t seed, FixedSum& sum) {
    all_.zero_();
    importance_.assign(result_.tensors.size(), 0);
    const std::int64_t size = gradient_batch(samples_.size());
    const std::int64_t batches = (samples_.size() + size - 1) / size;
    const auto begin = [&](std::int64_t i) {
      return std::min(batches * i / kShards * size, samples_.size());
    };
    double outputs = 0;
    if (gradients_)
      outputs = for_drawn_gradients(
          model_, samples_, begin(shard), begin(shard + 1), seed, [&] { add_gradients(); },
          [&](const at::Tensor& inputs) { return forward(inputs); });
    else
      see_inputs(begin(shard), begin(shard + 1));
    if (!all_.device().is_cpu()) host_.narrow(0, 0, all_.numel()).copy_(all_);
    float* tail = numbers().data() + numbers().size() - result_.tensors.size() - 1;
    for (const double importance : importance_) *tail++ = static_cast<float>(importance);
    *tail = static_cast<float>(outputs);
    sum.add(numbers());
  }

  /// The same bits for any number of ranks.
  void add_up(FixedSum& sum) {
    if (group_) {
      group_->all_reduce(sum, kShards, host_);
    } else {
      std::ranges::copy(sum.nodes().front(), numbers().begin());
    }
    if (weighed_) return;
    const std::span<const float> tail = numbers().last(result_.tensors.size() + 1);
    for (std::size_t i = 0; i < result_.tensors.size(); ++i)
      result_.tensors[i].importance =
          static_cast<double>(tail[i]) / std::max(1.0, static_cast<double>(tail.back()));
  }

  std::span<float> numbers() {
    return {host_.data_ptr<float>(), static_cast<std::size_t>(host_.numel())};
  }

  /// One forward pass tells which matrices are seen, and in what order.
  void find_uses() {
    const at::NoGradGuard no_grad;
    std::optional<LayerCall> last;  // its input is kept, so that no other takes its memory
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      if (result_.tensors[call.tensor].seen) return;
      result_.tensors[call.tensor].seen = true;
      const ParameterInfo& info = model_.tensors()[call.tensor].info;
      if (call.groups > 1 || info.elements() > kWidest * info.shape[0]) return;
      if (!last || !last->input.is_alias_of(call.input) || last->form != call.form)
        result_.groups.emplace_back();
      result_.groups.back().push_back(call.tensor);
      last = call;
      last->rows = nullptr;
    });
    model_.train(false);
    model_.forward(samples_.range(0, std::min<std::int64_t>(2, samples_.size())).inputs);
    seen.check();
  }

  /// Moments that fit into the memory that there is: those over inputs first.
  std::vector<Wanted> find_wanted() {
    const std::vector<NamedParameter>& tensors = model_.tensors();
    std::int64_t used = 0;
    std::vector<Wanted> wanted;
    for (const bool columns : {true, false})
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!is_matrix(tensors[i])) continue;
        const std::int64_t m = tensors[i].info.shape[0];
        const std::int64_t n = columns ? tensors[i].info.elements() / m : m;
        if (n > kWidest || used + n * n > kMostNumbers) {
          ++result_.left_out;
          continue;
        }
        wanted.push_back({i, columns, n});
        used += n * n;
      }
    return wanted;
  }

  /// One buffer for all sums on the model's device, and one on the host with the importance of each
  /// tensor and the outputs behind them: the same memory where that is the device.
  void reserve(std::span<const Wanted> wanted) {
    std::int64_t used = 0;
    for (const Wanted& each : wanted) used += each.n * each.n;
    host_ = at::zeros({used + static_cast<std::int64_t>(result_.tensors.size()) + 1}, at::kFloat);
    const at::Device device = device_of(model_);
    all_ = device.is_cpu() ? host_.narrow(0, 0, used)
                           : at::zeros({used}, at::TensorOptions(at::kFloat).device(device));
    view_sums(wanted, all_);
  }

  void view_sums(std::span<const Wanted> wanted, const at::Tensor& of) {
    std::int64_t used = 0;
    for (const auto& [tensor, columns, n] : wanted) {
      (columns ? sums_[tensor].columns : sums_[tensor].rows) =
          of.narrow(0, used, n * n).view({n, n});
      used += n * n;
    }
  }

  at::Tensor forward(const at::Tensor& inputs) {
    const std::int64_t most =
        std::max<std::int64_t>(1, kInputRows * inputs.size(0) / samples_.size());
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      Sums& sums = sums_[call.tensor];
      const bool kept = few_rows(call);
      if (!sums.columns.defined() && !kept) return;
      const at::NoGradGuard no_grad;
      const at::Tensor rows = call.rows(most);
      if (sums.columns.defined()) sums.columns.addmm_(rows.t(), rows);
      if (kept) keep(call, rows);
    });
    const at::Tensor output = model_.forward(inputs);
    seen.check();
    return output;
  }

  /// The batches of for_drawn_gradients(), where gradients are not needed.
  void see_inputs(std::int64_t first, std::int64_t last) {
    const at::AutoGradMode with_grad(true);  // operators may be others without
    const std::int64_t size = gradient_batch(samples_.size());
    for (; first < last; first += size) {
      throw_if_interrupted();
      forward(samples_.range(first, std::min(size, last - first)).inputs);
    }
  }

  /// Whether add_low_rank() may take the rows of this call beside those that were kept.
  bool few_rows(const LayerCall& call) const {
    const std::vector<std::int64_t>& shape = model_.tensors()[call.tensor].info.shape;
    if (!gradients_ || !sums_[call.tensor].rows.defined() || shape.size() != 2) return false;
    const at::Tensor& kept = rows_[call.tensor];
    const std::int64_t count = call.input.numel() / shape[1] + (kept.defined() ? kept.size(0) : 0);
    return kLowRank * count <= std::min(shape[0], shape[1]);
  }

  void keep(const LayerCall& call, const at::Tensor& rows) {
    at::Tensor& kept = rows_[call.tensor];
    kept = kept.defined() ? at::cat({kept, rows}) : rows;
  }

  /// Adds G G' for a gradient G that the rows X span: G = D X, so that G G' = B B' with B B' =
  /// (G X') (X X')^-1 (G X')'.
  /// @return whether they do; else nothing was added
  static bool add_low_rank(const at::Tensor& gradient, const at::Tensor& rows, at::Tensor& sum) {
    if (!rows.defined()) return false;
    at::Tensor gram = rows.mm(rows.t()).to(at::kDouble);
    const at::Tensor diagonal = gram.diagonal();
    diagonal.add_(diagonal.mean() * kRankDamp);
    const auto [lower, failed] = at::linalg_cholesky_ex(gram);
    if (failed.item<int>() != 0) return false;
    const at::Tensor factors =
        at::linalg_solve_triangular(lower, rows.mm(gradient.t()).to(at::kDouble), /*upper=*/false);
    const double all = sum_of_squares(gradient);
    if (!(std::fabs(factors.square().sum().item<double>() - all) <= kLacking * all)) return false;
    const at::Tensor columns = factors.to(at::kFloat);
    sum.addmm_(columns.t(), columns);
    return true;
  }

  void add_gradients() {
    const at::NoGradGuard no_grad;
    const std::vector<NamedParameter>& tensors = model_.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!weighed_) importance_[i] += squared_gradient(tensors[i]);
      const at::Tensor rows = std::exchange(rows_[i], at::Tensor());
      if (!tensors[i].tensor.grad().defined()) continue;
      Sums& sums = sums_[i];
      const bool columns = sums.columns.defined() && !result_.tensors[i].seen;
      if (!columns && !sums.rows.defined()) continue;
      const at::Tensor gradient = as_matrix(tensors[i].tensor.grad());
      if (columns) sums.columns.addmm_(gradient.t(), gradient);
      if (sums.rows.defined() && !add_low_rank(gradient, rows, sums.rows))
        sums.rows.addmm_(gradient, gradient.t());
    }
  }

  void factor(std::span<const Wanted> wanted) {
    const auto count = static_cast<std::int64_t>(wanted.size());
    parallel_tasks(at::get_num_threads(), count, [&](std::int64_t i) {
      const Wanted& each = wanted[static_cast<std::size_t>(i)];
      SecondOrder& moments = result_.tensors[each.tensor].moments;
      if (each.columns)
        moments.columns = factor_of(sums_[each.tensor].columns, kColumnDamp);
      else
        moments.rows = factor_of(sums_[each.tensor].rows, kRowDamp);
    });
  }

  Model& model_;
  const Dataset& samples_;
  Group* group_;
  std::int64_t at_once_;
  SecondOrderStatistics result_;
  at::Tensor all_, host_;  ///< float32: reserve(); `sums_` are parts of the first
  std::vector<Sums> sums_;
  std::vector<at::Tensor> rows_;    ///< of the batch at hand: keep()
  std::vector<double> importance_;  ///< of a part of the samples
  bool weighed_ = false;            ///< importance is known
  bool gradients_ = true;           ///< are part of this pass
};

}  // namespace

std::shared_ptr<const UpperFactor> factor_of(const at::Tensor& moments, double damp) {
  const at::Tensor dense = moments.to(at::kCPU).contiguous();
  const auto count = static_cast<std::size_t>(dense.numel());
  if (dense.scalar_type() == at::kFloat)
    return std::make_shared<const UpperFactor>(std::span(dense.const_data_ptr<float>(), count),
                                               dense.size(0), damp);
  return std::make_shared<const UpperFactor>(std::span(dense.const_data_ptr<double>(), count),
                                             dense.size(0), damp);
}

SecondOrderStatistics second_order_statistics(Model& model, const Dataset& samples,
                                              std::uint64_t seed, Group* group,
                                              std::int64_t at_once) {
  return Collector(model, samples, group, at_once).run(seed);
}

}  // namespace gbcompress
