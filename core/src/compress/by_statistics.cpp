#include "compress/by_statistics.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include "artifact/copied.h"
#include "compress/quality/losses.h"
#include "compress/verify.h"
#include "gbcompress/artifact.h"
#include "gbcompress/ranks.h"
#include "quantize/encode_weights.h"

namespace gbcompress {
namespace {

/// Uses of statistics that are compared.
struct Use {
  const char* name;
  StatisticsUse use;
};
constexpr std::array<Use, 3> kJointUses{
    {{"joint moments, steps by importance", {}},
     {"joint moments, steps of rows by importance", {.row_power = 1}},
     {"joint moments, steps by importance, biases kept", {.bias = false}}}};
/// Steps of rows gain nothing on convolutions.
constexpr std::array<Use, 2> kNormUses{
    {{"shrunk moments, steps by importance", {.shrinkage = 0.25}},
     {"error feedback of columns, steps by importance", {}}}};
/// Files are written anew at most so often where norms that fit their integers take more bytes than
/// before; mantissa bits of corrected norms, of which other vectors have 7.
constexpr int kNormFiles = 3, kNormBits = 9;

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

/// Files of the call's model at one size.
class Files {
 public:
  Files(CompressRun& call, WeightsOptions options)
      : call_(call), options_(std::move(options)), size_(*options_.max_bytes) {
    statistics_ = without_cosines(*call_.allocation->statistics(), encoded(size_).file);
    options_.statistics = &statistics_;
  }

  /// The model gets its values. Nothing where no file of the size was found.
  std::optional<EncodedWeights> made(const StatisticsUse& use) {
    options_.statistics_use = use;
    std::int64_t room = size_;
    for (int i = 0; i < kNormFiles; ++i) {
      EncodedWeights made = encoded(room);
      take_values(call_, made.file);
      if (!made.report.target_met) return std::nullopt;
      if (call_.allocation->corrected_norms() == 0) return made;
      const auto before = static_cast<std::int64_t>(made.file.size());
      made.file = with_norms(made.file);
      const auto bytes = static_cast<std::int64_t>(made.file.size());
      if (bytes <= size_) {
        take_values(call_, made.file);
        return made;
      }
      room = std::min(room - (bytes - size_), size_ - (bytes - before));
    }
    return std::nullopt;
  }

 private:
  EncodedWeights encoded(std::int64_t bytes) {
    options_.max_bytes = bytes;
    call_.originals->restore(call_.model);
    return encode_weights(model_bundle(call_.model), call_.options.output.parent_path(), options_);
  }

  /// The file with norms that fit its own integers: those of other integers do not.
  std::vector<std::byte> with_norms(const std::vector<std::byte>& file) {
    const std::vector<std::size_t> corrected = call_.allocation->correct_norms();
    std::vector<at::Tensor> values;
    Replacements replaced{.mantissa_bits = kNormBits};
    for (const std::size_t i : corrected) {
      const NamedParameter& p = call_.model.tensors()[i];
      values.push_back(p.tensor.detach().to(at::kCPU, at::kFloat).contiguous());
      replaced.values[p.info.name] = {values.back().const_data_ptr<float>(),
                                      static_cast<std::size_t>(values.back().numel())};
    }
    return with_replaced(ArtifactReader::from_bytes(file, "the file"), replaced);
  }

  CompressRun& call_;
  WeightsOptions options_;
  const std::int64_t size_;
  Statistics statistics_;
};

std::optional<Candidate> best_file(CompressRun& call, WeightsOptions options,
                                   const std::function<bool()>& time) {
  const Allocation& allocation = *call.allocation;
  double least = allocation.loss();
  std::optional<Candidate> best;
  Files files(call, std::move(options));
  const std::span<const Use> uses =
      allocation.has_joint_moments() ? std::span<const Use>(kJointUses) : kNormUses;
  for (const auto& [name, use] : uses) {
    if (!time()) break;
    std::optional<EncodedWeights> made = files.made(use);
    if (!made) continue;
    const double loss = allocation.loss();
    allocation.tell(name, static_cast<std::int64_t>(made->file.size()), loss);
    if (!(loss < least)) continue;
    least = loss;
    best =
        Candidate{.file = std::move(made->file), .weights = std::move(made->report), .rule = name};
  }
  return best;
}

/// The first rank's file on all ranks. [collective]
void share(std::optional<Candidate>& best, Group& group) {
  const bool first = group.rank() == 0;
  at::Tensor size =
      at::full({1}, best ? static_cast<std::int64_t>(best->file.size()) : 0, at::kLong);
  group.broadcast(size, 0).wait();
  const std::int64_t bytes = size.item<std::int64_t>();
  if (bytes == 0) return;
  at::Tensor content = at::empty({bytes}, at::kByte);
  if (first) std::memcpy(content.mutable_data_ptr(), best->file.data(), best->file.size());
  group.broadcast(content, 0).wait();
  if (first) return;
  best.emplace();
  best->file.resize(static_cast<std::size_t>(bytes));
  std::memcpy(best->file.data(), content.const_data_ptr(), best->file.size());
}

}  // namespace

std::optional<Candidate> better_by_statistics(CompressRun& call, const std::vector<std::byte>& own,
                                              WeightsOptions options,
                                              const std::function<bool()>& time) {
  Group* const group = call.options.group;
  std::optional<Candidate> best;
  if (!group || group->rank() == 0) best = best_file(call, std::move(options), time);
  if (group && group->world() > 1) share(best, *group);
  take_values(call, best ? best->file : own);
  return best;
}

}  // namespace gbcompress
