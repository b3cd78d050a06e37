#include "model/batch_norms.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <map>

namespace gbcompress {

std::vector<BatchNorm> find_batch_norms(const std::vector<NamedParameter>& tensors) {
  constexpr std::array<const char*, 4> kNames = {"weight", "bias", "running_mean", "running_var"};
  std::map<std::string, std::map<std::string, std::size_t>> modules;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const NamedParameter& p = tensors[i];
    if (p.tied_to.empty() && p.tensor.is_floating_point() && p.tensor.dim() == 1)
      modules[p.info.module_path][p.info.local_name] = i;
  }
  std::vector<BatchNorm> norms;
  for (const auto& module : modules) {
    const auto& members = module.second;
    if (!std::all_of(kNames.begin(), kNames.end(), [&](const char* n) { return members.count(n); }))
      continue;
    BatchNorm norm{module.first, {}};
    for (std::size_t k = 0; k < kNames.size(); ++k) norm.tensors[k] = members.at(kNames[k]);
    norms.push_back(std::move(norm));
  }
  return norms;
}

}  // namespace gbcompress
