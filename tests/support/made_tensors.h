#pragma once
/// Tensors in memory, as a file would give them.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "format/tensor_bundle.h"

namespace gbcompress::testing {

/// A bundle that owns what is added to it; sorted() before it is used.
class MadeTensors {
 public:
  template <typename T>
  void add(const std::string& name, DType dtype, std::vector<std::int64_t> shape,
           const std::vector<T>& values) {
    auto bytes = std::make_shared<std::vector<std::byte>>(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes->data(), values.data(), bytes->size());
    bundle.tensors.push_back({name, dtype, std::move(shape), *bytes});
    bundle.owners.push_back(std::move(bytes));
  }
  void add(const std::string& name, std::vector<std::int64_t> shape,
           const std::vector<float>& values) {
    add(name, DType::kF32, std::move(shape), values);
  }
  const TensorBundle& sorted() {
    std::sort(bundle.tensors.begin(), bundle.tensors.end(),
              [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
    return bundle;
  }

  TensorBundle bundle;
};

inline std::vector<float> normals(std::int64_t n, std::uint64_t seed, float deviation = 1) {
  std::vector<float> values(static_cast<std::size_t>(n));
  RandomStream(seed, "made tensors").fill_normal(values, 0, deviation);
  return values;
}

}  // namespace gbcompress::testing
