#include "train/second_order.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <optional>

#include "base/parallel.h"
#include "gbcompress/error.h"
#include "train/calibrate.h"
#include "train/layer_inputs.h"

namespace gbcompress {
namespace {

/// Moments of wider matrices are not taken, nor more numbers of all together: 8 bytes each.
constexpr std::int64_t kWidest = 4096, kMostNumbers = 64 << 20;

struct Sums {
  at::Tensor columns, rows;  ///< float64; undefined where they are not taken
};

/// [rows, everything else]
at::Tensor as_matrix(const at::Tensor& tensor) {
  return tensor.to(at::kFloat).reshape({tensor.size(0), -1});
}

class Collector {
 public:
  Collector(Model& model, const Dataset& samples) : model_(model), samples_(samples) {
    result_.tensors.resize(model.tensors().size());
    sums_.resize(model.tensors().size());
  }

  SecondOrderStatistics run(std::uint64_t seed) {
    find_uses();
    reserve();
    const double outputs = for_drawn_gradients(
        model_, samples_, seed, [&] { add_gradients(); },
        [&](const at::Tensor& inputs) { return forward(inputs); });
    for (auto& tensor : result_.tensors) tensor.importance /= outputs;
    factor();
    return std::move(result_);
  }

 private:
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

  void reserve() {
    std::int64_t left = kMostNumbers;
    const auto take = [&](std::int64_t n) {
      if (n > kWidest || n * n > left) {
        ++result_.left_out;
        return at::Tensor();
      }
      left -= n * n;
      return at::zeros({n, n}, at::kDouble);
    };
    const std::vector<NamedParameter>& tensors = model_.tensors();
    for (const bool columns : {true, false})
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (!is_matrix(tensors[i])) continue;
        const std::int64_t m = tensors[i].info.shape[0];
        if (columns)
          sums_[i].columns = take(tensors[i].info.elements() / m);
        else
          sums_[i].rows = take(m);
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
      sums = {};
    });
  }

  Model& model_;
  const Dataset& samples_;
  SecondOrderStatistics result_;
  std::vector<Sums> sums_;
};

}  // namespace

std::shared_ptr<const UpperFactor> factor_of(const at::Tensor& moments, double damp) {
  const at::Tensor dense = moments.contiguous();
  const double* const first = dense.const_data_ptr<double>();
  return std::make_shared<const UpperFactor>(std::vector<double>(first, first + dense.numel()),
                                             dense.size(0), damp);
}

SecondOrderStatistics second_order_statistics(Model& model, const Dataset& samples,
                                              std::uint64_t seed) {
  return Collector(model, samples).run(seed);
}

}  // namespace gbcompress
