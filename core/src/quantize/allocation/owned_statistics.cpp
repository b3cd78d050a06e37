#include "quantize/allocation/owned_statistics.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "gbcompress/error.h"
#include "quantize/feedback/rounding_model.h"

namespace gbcompress {

std::vector<std::size_t> first_equals(const TensorBundle& weights) {
  using Form = std::tuple<const std::byte*, std::size_t, DType, std::vector<std::int64_t>>;
  std::map<Form, std::size_t> first;
  std::vector<std::size_t> owners;
  for (std::size_t i = 0; i < weights.tensors.size(); ++i) {
    const TensorEntry& each = weights.tensors[i];
    owners.push_back(i);
    if (each.bytes.empty()) continue;
    const Form form(each.bytes.data(), each.bytes.size(), each.dtype, each.shape);
    owners.back() = first.emplace(form, i).first->second;
  }
  return owners;
}

OwnedStatistics::OwnedStatistics(const TensorBundle& weights, const Statistics& statistics)
    : importance_(weights.tensors.size()) {
  const std::vector<std::size_t> owners = first_equals(weights);
  std::map<std::string, std::size_t, std::less<>> index;
  for (std::size_t i = 0; i < owners.size(); ++i) index[weights.tensors[i].name] = owners[i];
  const auto place = [&](const std::string& name) {
    const auto at = index.find(name);
    if (at == index.end())
      throw Error(Errc::kUsage, "the statistics name " + printable(name) +
                                    ", and the model has no such tensor; take those of this model");
    return at->second;
  };
  for (const auto& [name, of] : statistics.tensors) {
    const std::size_t bar = name.find('|');
    StatisticsEntry entry{&name, &of, place(name.substr(0, bar))};
    if (bar != std::string::npos) {
      entry.second = place(name.substr(bar + 1));
      if (entry.first == *entry.second)
        throw Error(Errc::kShapeMismatch,
                    "statistics of " + printable(name) + ": the two tensors are one");
    }
    add(entry);
  }
}

void OwnedStatistics::add(const StatisticsEntry& entry) {
  const TensorStatistics& of = *entry.statistics;
  std::vector<float>& sum = importance_[entry.first];
  if (!entry.second && sum.empty()) {
    sum = of.row_importance;
  } else if (!entry.second && !of.row_importance.empty()) {
    if (sum.size() != of.row_importance.size())
      throw Error(Errc::kShapeMismatch,
                  "statistics of " + printable(*entry.name) +
                      ": the row importance has other rows than that of a tensor it is tied to");
    for (std::size_t row = 0; row < sum.size(); ++row) sum[row] += of.row_importance[row];
  }
  const auto same = std::ranges::find_if(entries_, [&](const StatisticsEntry& other) {
    return other.first == entry.first && other.second == entry.second;
  });
  if (same == entries_.end())
    entries_.push_back(entry);
  else if (!any_moments(*same->statistics) && any_moments(of))
    *same = entry;
}

bool OwnedStatistics::has_inputs(std::size_t i) const {
  return std::ranges::any_of(entries_, [&](const StatisticsEntry& entry) {
    return (entry.first == i || entry.second == i) &&
           (any_moments(*entry.statistics) || !entry.statistics->input_mean.empty());
  });
}

bool OwnedStatistics::has_moments(std::size_t i, const StatisticsUse& use) const {
  return use.feedback && std::ranges::any_of(entries_, [&](const StatisticsEntry& entry) {
           return (entry.first == i || entry.second == i) && any_moments(*entry.statistics) &&
                  !use.without_moments.contains(*entry.name);
         });
}

}  // namespace gbcompress
