#include "statistics/norm_inputs.h"

#include <string_view>
#include <utility>

#include "statistics/observed_call.h"

namespace gbcompress {
namespace {

/// Arguments of aten::batch_norm.
constexpr std::size_t kInputArgument = 0, kMeanArgument = 3, kEpsArgument = 7;

}  // namespace

NormInputs::NormInputs(const Model& model, const std::vector<BatchNorm>& norms, Sink sink)
    : sink_(std::move(sink)) {
  for (std::size_t i = 0; i < norms.size(); ++i)
    if (const void* const storage =
            storage_of(model.tensors()[norms[i].tensors[BatchNorm::kMean]].tensor))
      norms_.emplace(storage, i);
  current = this;
  handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&NormInputs::begin)
                                           .needsInputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
}

NormInputs::~NormInputs() {
  at::removeCallback(handle_);
  current = nullptr;
}

std::unique_ptr<at::ObserverContext> NormInputs::begin(const at::RecordFunction& call) {
  if (!current || current->failed_ || std::string_view(call.name()) != "aten::batch_norm")
    return nullptr;
  try {
    current->report(call);
  } catch (...) {
    current->failed_ = std::current_exception();  // observers must not throw
  }
  return nullptr;
}

void NormInputs::report(const at::RecordFunction& call) const {
  const auto values = arguments_of(call);
  const at::Tensor input = tensor_at(values, kInputArgument);
  if (!input.defined() || input.dim() < 2 || values.size() <= kEpsArgument) return;
  const auto found = norms_.find(storage_of(tensor_at(values, kMeanArgument)));
  if (found == norms_.end()) return;
  const at::DisableRecordFunctionGuard unseen;
  sink_({found->second, input, values[kEpsArgument].toDouble()});
}

void NormInputs::check() {
  if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
}

}  // namespace gbcompress
