#include "train/second_order.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "gbcompress/dist.h"
#include "gbcompress/error.h"
#include "gbcompress/fixed_sum.h"
#include "train/calibrate.h"
#include "train/layer_inputs.h"

namespace gbcompress {
namespace {

/// Moments of wider matrices are not taken, nor more numbers of all together: 4 bytes each in each
/// open sum, of which there are five at most, then 8 in factors.
constexpr std::int64_t kWidest = 4096, kMostNumbers = 48 << 20;
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
  Collector(Model& model, const Dataset& samples, Group* group)
      : model_(model), samples_(samples), group_(group) {
    result_.tensors.resize(model.tensors().size());
    sums_.resize(model.tensors().size());
  }

  SecondOrderStatistics run(std::uint64_t seed) {
    find_uses();
    reserve();
    // More ranks than parts: each sums up everything.
    if (group_ && (group_->world() == 1 || group_->world() > kShards)) group_ = nullptr;
    FixedSum sum(all_.numel(), group_ ? shards_of(group_->rank(), group_->world(), kShards)
                                      : ShardRange{0, kShards});
    for (int i = 0; i < sum.own().count; ++i) add_shard(sum.own().first + i, seed, sum);
    add_up(sum);
    factor();
    return std::move(result_);
  }

 private:
  /// What a part of the samples says, as one leaf of a tree.
  void add_shard(std::int64_t shard, std::uint64_t seed, FixedSum& sum) {
    all_.zero_();
    for (auto& tensor : result_.tensors) tensor.importance = 0;
    const std::int64_t batches = (samples_.size() + kGradientBatch - 1) / kGradientBatch;
    const auto begin = [&](std::int64_t i) {
      return std::min(batches * i / kShards * kGradientBatch, samples_.size());
    };
    const double outputs = for_drawn_gradients(
        model_, samples_, begin(shard), begin(shard + 1), seed, [&] { add_gradients(); },
        [&](const at::Tensor& inputs) { return forward(inputs); });
    float* tail = numbers().data() + numbers().size() - result_.tensors.size() - 1;
    for (const auto& tensor : result_.tensors) *tail++ = static_cast<float>(tensor.importance);
    *tail = static_cast<float>(outputs);
    sum.add(numbers());
  }

  /// The same bits for any number of ranks.
  void add_up(FixedSum& sum) {
    if (group_) {
      group_->all_reduce(sum, kShards, all_);
    } else {
      std::ranges::copy(sum.nodes().front(), numbers().begin());
    }
    const std::span<const float> tail = numbers().last(result_.tensors.size() + 1);
    for (std::size_t i = 0; i < result_.tensors.size(); ++i)
      result_.tensors[i].importance =
          static_cast<double>(tail[i]) / std::max(1.0, static_cast<double>(tail.back()));
  }

  std::span<float> numbers() {
    return {all_.data_ptr<float>(), static_cast<std::size_t>(all_.numel())};
  }

  /// One forward pass tells which matrices are seen, and in what order.
  void find_uses() {
    const at::NoGradGuard no_grad;
    std::optional<LayerCall> last;  // its input is kept, so that no other takes its memory
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      if (result_.tensors[call.tensor].seen) return;
      result_.tensors[call.tensor].seen = true;
      if (call.groups > 1) return;
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

  /// One buffer for all sums, the importance of each tensor and the outputs behind them.
  void reserve() {
    const std::vector<NamedParameter>& tensors = model_.tensors();
    std::int64_t used = 0;
    std::vector<std::pair<at::Tensor*, std::int64_t>> wanted;
    for (const bool columns : {true, false})
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!is_matrix(tensors[i])) continue;
        const std::int64_t m = tensors[i].info.shape[0];
        const std::int64_t n = columns ? tensors[i].info.elements() / m : m;
        if (n > kWidest || used + n * n > kMostNumbers) {
          ++result_.left_out;
          continue;
        }
        wanted.emplace_back(columns ? &sums_[i].columns : &sums_[i].rows, n);
        used += n * n;
      }
    all_ = at::zeros({used + static_cast<std::int64_t>(tensors.size()) + 1}, at::kFloat);
    used = 0;
    for (const auto& [sum, n] : wanted) {
      *sum = all_.narrow(0, used, n * n).view({n, n});
      used += n * n;
    }
  }

  at::Tensor forward(const at::Tensor& inputs) {
    const std::int64_t most =
        std::max<std::int64_t>(1, kInputRows * inputs.size(0) / samples_.size());
    LayerInputs seen(model_.tensors(), [&](const LayerCall& call) {
      Sums& sums = sums_[call.tensor];
      if (!sums.columns.defined()) return;
      const at::NoGradGuard no_grad;
      const at::Tensor rows = call.rows(most);
      sums.columns.add_(rows.t().mm(rows));
    });
    const at::Tensor output = model_.forward(inputs);
    seen.check();
    return output;
  }

  void add_gradients() {
    const at::NoGradGuard no_grad;
    const std::vector<NamedParameter>& tensors = model_.tensors();
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result_.tensors[i].importance += squared_gradient(tensors[i]);
      if (!tensors[i].tensor.grad().defined()) continue;
      Sums& sums = sums_[i];
      const bool columns = sums.columns.defined() && !result_.tensors[i].seen;
      if (!columns && !sums.rows.defined()) continue;
      const at::Tensor gradient = as_matrix(tensors[i].tensor.grad());
      if (columns) sums.columns.add_(gradient.t().mm(gradient));
      if (sums.rows.defined()) sums.rows.add_(gradient.mm(gradient.t()));
    }
  }

  void factor() {
    const auto count = static_cast<std::int64_t>(sums_.size());
    parallel_tasks(at::get_num_threads(), count, [&](std::int64_t i) {
      Sums& sums = sums_[static_cast<std::size_t>(i)];
      SecondOrder& moments = result_.tensors[static_cast<std::size_t>(i)].moments;
      if (sums.columns.defined()) moments.columns = factor_of(sums.columns, kColumnDamp);
      if (sums.rows.defined()) moments.rows = factor_of(sums.rows, kRowDamp);
    });
  }

  Model& model_;
  const Dataset& samples_;
  Group* group_;
  SecondOrderStatistics result_;
  at::Tensor all_;  ///< float32; `sums_` are parts of it
  std::vector<Sums> sums_;
};

}  // namespace

std::shared_ptr<const UpperFactor> factor_of(const at::Tensor& moments, double damp) {
  const at::Tensor dense = moments.to(at::kDouble).contiguous();
  const double* const first = dense.const_data_ptr<double>();
  return std::make_shared<const UpperFactor>(std::vector<double>(first, first + dense.numel()),
                                             dense.size(0), damp);
}

SecondOrderStatistics second_order_statistics(Model& model, const Dataset& samples,
                                              std::uint64_t seed, Group* group) {
  return Collector(model, samples, group).run(seed);
}

}  // namespace gbcompress
