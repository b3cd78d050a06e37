#include "gbcompress/weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "base/glob.h"
#include "gbcompress/decode.h"
#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {
namespace {

/// Of the built-in architectures' norms, torch.nn's default.
constexpr double kEps = 1e-5;
/// A channel's scale may grow by so much beside the largest weight of its norm.
constexpr double kMostGrowth = 64;

using Index = std::unordered_map<std::string, std::size_t>;

struct Norm {
  TensorEntry *weight, *bias, *mean, *variance;
};

/// The four vectors of the norm that has this running mean, where all are there and float32.
/// @return false too where one of them is to stay exact
bool find_norm(TensorBundle& bundle, const Index& index, const std::string& path,
               const GlobSet& exact, Norm& norm) {
  TensorEntry* found[4];
  const char* const names[] = {".weight", ".bias", ".running_mean", ".running_var"};
  for (std::size_t i = 0; i < 4; ++i) {
    const auto at = index.find(path + names[i]);
    if (at == index.end()) return false;
    if (exact.matches(at->first)) return false;
    found[i] = &bundle.tensors[at->second];
    if (found[i]->dtype != DType::kF32 || found[i]->shape != found[0]->shape) return false;
  }
  norm = {found[0], found[1], found[2], found[3]};
  return true;
}

void replace(TensorBundle& bundle, TensorEntry& entry, const std::vector<float>& values) {
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(float));
  std::memcpy(bytes->data(), values.data(), bytes->size());
  entry.bytes = *bytes;
  bundle.owners.push_back(std::move(bytes));
}

void fold(TensorBundle& bundle, const Norm& norm) {
  std::vector<float> weight = numbers_of(*norm.weight), bias = numbers_of(*norm.bias);
  const std::vector<float> mean = numbers_of(*norm.mean), variance = numbers_of(*norm.variance);
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    const double scale =
        static_cast<double>(weight[i]) / std::sqrt(static_cast<double>(variance[i]) + kEps);
    if (variance[i] < 0 || !std::isfinite(scale)) return;
    largest = std::max(largest, std::fabs(static_cast<double>(weight[i])));
    most = std::max(most, std::fabs(scale));
    bias[i] =
        static_cast<float>(static_cast<double>(bias[i]) - static_cast<double>(mean[i]) * scale);
    weight[i] = static_cast<float>(scale);
  }
  if (most > kMostGrowth * largest) return;
  replace(bundle, *norm.weight, weight);
  replace(bundle, *norm.bias, bias);
  replace(bundle, *norm.mean, std::vector<float>(weight.size(), 0));
  replace(bundle, *norm.variance, std::vector<float>(weight.size(), static_cast<float>(1 - kEps)));
}

}  // namespace

bool fits_layout(const TensorBundle& weights, const std::string& arch) {
  const auto layout = arch_layout(arch);
  if (!layout || layout->size() != weights.tensors.size()) return false;
  return std::all_of(layout->begin(), layout->end(), [&](const LayoutEntry& entry) {
    const TensorEntry* found = weights.find(entry.name);
    return found && found->shape == entry.shape;
  });
}

TensorBundle arranged(const TensorBundle& weights, const WeightsOptions& options) {
  TensorBundle result = weights;
  const auto layout = arch_layout(options.arch).value();
  Index index;
  for (std::size_t i = 0; i < layout.size(); ++i) {
    result.tensors[i] = *weights.find(layout[i].name);
    index[layout[i].name] = i;
  }
  // The change since a base is computed from tensors as both models have them.
  if ((!options.max_bytes && !options.max_error) || options.base()) return result;
  const GlobSet exact(options.exact);
  constexpr std::string_view kMean = ".running_mean";
  for (const LayoutEntry& entry : layout) {
    Norm norm{};
    if (!entry.name.ends_with(kMean)) continue;
    const std::string path = entry.name.substr(0, entry.name.size() - kMean.size());
    if (find_norm(result, index, path, exact, norm)) fold(result, norm);
  }
  return result;
}

}  // namespace gbcompress
