#include "statistics/layer_inputs.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <exception>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "statistics/observed_call.h"
#include "statistics/recurrent_inputs.h"

namespace gbcompress {
namespace {

/// How a call of an operator multiplies a weight.
struct Use {
  at::Tensor input, weight;
  bool transposed = false;  ///< the weight is given as [n, out]
  bool convolution = false;
  std::vector<std::int64_t> stride, padding, dilation;
  std::int64_t groups = 1;
};

/// What the operator's arguments say; nothing for operators that are no such product.
std::optional<Use> use_of(std::string_view name, c10::ArrayRef<const c10::IValue> values) {
  Use use{tensor_at(values, 0), tensor_at(values, 1)};
  if (name == "aten::linear") return use;
  if (name == "aten::addmm") {
    use = {tensor_at(values, 1), tensor_at(values, 2)};
    use.transposed = true;
    return use;
  }
  if (name == "aten::mm" || name == "aten::matmul") {
    use.transposed = true;
    return use;
  }
  const bool whole = name == "aten::_convolution" || name == "aten::convolution";
  if (!whole && name != "aten::conv2d" && name != "aten::conv1d") return std::nullopt;
  const std::size_t groups = whole ? 8 : 6;
  if (values.size() <= groups || (whole && values[6].toBool())) return std::nullopt;
  for (const std::size_t i : {3u, 4u, 5u})
    if (!values[i].isIntList()) return std::nullopt;
  use.convolution = true;
  use.stride = values[3].toIntVector();
  use.padding = values[4].toIntVector();
  use.dilation = values[5].toIntVector();
  use.groups = values[groups].toInt();
  return use;
}

/// Some of `count` rows, evenly spread; the distance is prime to the width of an image, so that
/// not always the same columns are taken.
std::int64_t distance(std::int64_t count, std::int64_t most, std::int64_t width) {
  std::int64_t step = std::max<std::int64_t>(1, (count + most - 1) / most);
  while (step > 1 && std::gcd(step, width) > 1) ++step;
  return step;
}

at::Tensor every(const at::Tensor& rows, std::int64_t step) {
  return step == 1 ? rows : rows.slice(0, 0, rows.size(0), step).contiguous();
}

/// Patches of the input as rows; of grouped convolutions those of all groups.
at::Tensor patches(Use use, std::int64_t most) {
  at::Tensor x = use.input.detach().to(at::kFloat), w = use.weight;
  if (w.dim() == 3) {  // one dimension is an image of height 1
    x = x.unsqueeze(-2);
    w = w.unsqueeze(-2);
    for (auto* pair : {&use.stride, &use.dilation}) pair->insert(pair->begin(), 1);
    use.padding.insert(use.padding.begin(), 0);
  }
  const auto both = [](std::vector<std::int64_t>& pair) {
    if (pair.size() == 1) pair.push_back(pair.front());
  };
  both(use.stride);
  both(use.padding);
  both(use.dilation);
  if (x.dim() == 3) x = x.unsqueeze(0);
  const at::Tensor columns =
      at::im2col(x, {w.size(2), w.size(3)}, use.dilation, use.padding, use.stride);
  const std::int64_t width =
      (x.size(3) + 2 * use.padding[1] - use.dilation[1] * (w.size(3) - 1) - 1) / use.stride[1] + 1;
  const std::int64_t positions = columns.size(2);
  // [batch, groups * n, positions] -> [batch, groups, positions, n]
  at::Tensor rows = columns.view({columns.size(0), use.groups, -1, positions});
  const std::int64_t count = rows.size(0) * positions;
  const std::int64_t step = std::min(distance(count, most, width), positions);
  rows = rows.slice(3, 0, positions, step).transpose(2, 3);
  return rows.reshape({-1, rows.size(3)});
}

std::vector<std::int64_t> form_of(const Use& use) {
  std::vector<std::int64_t> form =
      use.convolution ? use.weight.sizes().slice(1).vec() : std::vector{use.input.size(-1)};
  for (const auto* part : {&use.stride, &use.padding, &use.dilation})
    form.insert(form.end(), part->begin(), part->end());
  return form;
}

at::Tensor rows_of(const Use& use, std::int64_t most) {
  const at::AutoGradMode no_grad(false);
  const at::DisableRecordFunctionGuard unseen;
  if (use.convolution) return patches(use, most);
  const at::Tensor rows = use.input.detach().to(at::kFloat).reshape({-1, use.input.size(-1)});
  return every(rows, distance(rows.size(0), most, 1));
}

}  // namespace

struct LayerInputs::Impl {
  std::unordered_map<const void*, std::size_t> weights;  ///< by storage
  std::vector<std::vector<std::int64_t>> shapes;
  Sink sink;
  RecurrentSink recurrent;
  at::CallbackHandle handle = at::INVALID_CALLBACK_HANDLE;
  int inside = 0;  ///< calls that were reported and go on
  std::exception_ptr failed;

  std::optional<std::size_t> index_of(const at::Tensor& weight) const {
    const auto found = weights.find(storage_of(weight));
    if (found == weights.end()) return std::nullopt;
    return found->second;
  }

  std::optional<std::size_t> weight(const Use& use) const {
    if (!use.input.defined() || use.input.dim() < 1) return std::nullopt;
    const auto found = index_of(use.weight);
    if (!found) return std::nullopt;
    const std::vector<std::int64_t>& shape = shapes[*found];
    const at::Tensor given = use.transposed && use.weight.dim() == 2 ? use.weight.t() : use.weight;
    if (given.sizes() != at::IntArrayRef(shape) || !given.is_contiguous()) return std::nullopt;
    if (use.convolution ? shape.size() < 3 || shape.size() > 4 : shape.size() != 2)
      return std::nullopt;
    return found;
  }

  struct Context : at::ObserverContext {
    bool reported = false;
  };
  inline static thread_local Impl* current = nullptr;

  /// @return whether it is one of the model's recurrent layers
  bool report_recurrent(const at::RecordFunction& call) const {
    bool reported = false;
    for (const RecurrentUse& use : recurrent_uses(call.name(), arguments_of(call))) {
      const auto first = index_of(use.input_weight), second = index_of(use.hidden_weight);
      if (!first || !second || use.input_weight.sizes() != at::IntArrayRef(shapes[*first]) ||
          use.hidden_weight.sizes() != at::IntArrayRef(shapes[*second]))
        continue;
      reported = true;
      recurrent({*first, *second, use.rows});
    }
    return reported;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
    auto context = std::make_unique<Context>();
    if (!current || current->inside > 0 || current->failed) return context;
    try {
      if (current->recurrent && current->report_recurrent(call)) {
        context->reported = true;
        ++current->inside;
        return context;
      }
    } catch (...) {
      current->failed = std::current_exception();
      return context;
    }
    const auto use = use_of(call.name(), arguments_of(call));
    if (!use) return context;
    const auto tensor = current->weight(*use);
    if (!tensor) return context;
    context->reported = true;
    ++current->inside;
    try {
      current->sink({*tensor, use->input, form_of(*use), use->groups,
                     [&use](std::int64_t most) { return rows_of(*use, most); }});
    } catch (...) {
      current->failed = std::current_exception();  // observers must not throw
    }
    return context;
  }
  static void end(const at::RecordFunction&, at::ObserverContext* context) {
    if (current && context && static_cast<Context*>(context)->reported) --current->inside;
  }
};

LayerInputs::LayerInputs(const std::vector<NamedParameter>& tensors, Sink sink,
                         RecurrentSink recurrent)
    : impl_(std::make_unique<Impl>()) {
  impl_->sink = std::move(sink);
  impl_->recurrent = std::move(recurrent);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    impl_->shapes.push_back(tensors[i].info.shape);
    const void* const storage = storage_of(tensors[i].tensor);
    if (storage && tensors[i].tied_to.empty() && tensors[i].trainable)
      impl_->weights.emplace(storage, i);
  }
  Impl::current = impl_.get();
  impl_->handle = at::addThreadLocalCallback(at::RecordFunctionCallback(&Impl::begin, &Impl::end)
                                                 .needsInputs(true)
                                                 .scopes({at::RecordScope::FUNCTION}));
}

LayerInputs::~LayerInputs() {
  at::removeCallback(impl_->handle);
  Impl::current = nullptr;
}

void LayerInputs::check() const {
  if (impl_->failed) std::rethrow_exception(std::exchange(impl_->failed, nullptr));
}

}  // namespace gbcompress
