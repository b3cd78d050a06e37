#include "compress/by_statistics.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "compress/quality/losses.h"
#include "compress/verify.h"
#include "gbcompress/artifact.h"
#include "quantize/encode_weights.h"

namespace gbcompress {
namespace {

/// Uses of statistics that are compared.
struct JointUse {
  const char* name;
  StatisticsUse use;
};
constexpr std::array<JointUse, 3> kJointUses{
    {{"joint moments, steps by importance", {}},
     {"joint moments, steps of rows by importance", {.row_power = 1}},
     {"joint moments, steps by importance, biases kept", {.bias = false}}}};

EncodedWeights encoded(const CompressRun& call, const WeightsOptions& options) {
  call.originals->restore(call.model);
  return encode_weights(model_bundle(call.model), call.options.output.parent_path(), options);
}

/// Without the moments of tensors that a data-free file holds as cosines, which take fewer bytes
/// than integers under moments; their rows are equally important.
Statistics without_cosines(Statistics statistics, const std::vector<std::byte>& data_free) {
  const ArtifactReader reader = ArtifactReader::from_bytes(data_free, "the file");
  for (const ArtifactTensor& tensor : reader.tensors()) {
    const auto found = statistics.tensors.find(tensor.name);
    if (tensor.axis < 0 || found == statistics.tensors.end()) continue;
    std::vector<float> rows = std::move(found->second.row_importance);
    const double sum = std::accumulate(rows.begin(), rows.end(), 0.0);
    std::ranges::fill(rows,
                      static_cast<float>(sum / std::max(1.0, static_cast<double>(rows.size()))));
    found->second = {.row_importance = std::move(rows)};
  }
  return statistics;
}

}  // namespace

std::optional<Candidate> better_by_statistics(CompressRun& call, const std::vector<std::byte>& own,
                                              WeightsOptions options,
                                              const std::function<bool()>& time) {
  const Allocation& allocation = *call.allocation;
  double least = allocation.loss();
  std::optional<Candidate> best;
  const Statistics statistics =
      without_cosines(*allocation.joint_statistics(), encoded(call, options).file);
  options.statistics = &statistics;
  for (const auto& [name, use] : kJointUses) {
    if (!time()) break;
    options.statistics_use = use;
    EncodedWeights made = encoded(call, options);
    take_values(call, made.file);
    const double loss = allocation.loss();
    allocation.tell(name, static_cast<std::int64_t>(made.file.size()), loss);
    if (!made.report.target_met || !(loss < least)) continue;
    least = loss;
    best = Candidate{.file = std::move(made.file), .weights = std::move(made.report), .rule = name};
  }
  take_values(call, best ? best->file : own);
  return best;
}

}  // namespace gbcompress
