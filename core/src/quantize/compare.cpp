#include "gbcompress/weights.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "artifact/sections/elements.h"
#include "base/checked.h"
#include "base/parallel.h"
#include "gbcompress/artifact.h"
#include "gbcompress/decode.h"
#include "quantize/allocation/bit_allocation.h"

namespace gbcompress {

struct TensorSource::Impl {
  TensorBundle bundle;                     ///< where there is no artifact
  std::optional<ArtifactReader> artifact;  ///< decoded on request
  TensorDecoder decode;
  std::vector<StoredTensor> tensors;
};

TensorSource TensorSource::of(TensorBundle tensors) {
  auto impl = std::make_shared<Impl>();
  impl->bundle = std::move(tensors);
  for (const TensorEntry& tensor : impl->bundle.tensors)
    impl->tensors.push_back({.name = tensor.name,
                             .dtype = tensor.dtype,
                             .shape = tensor.shape,
                             .stored = "exact",
                             .bytes = static_cast<double>(tensor.bytes.size())});
  TensorSource source;
  source.impl_ = std::move(impl);
  return source;
}

TensorSource TensorSource::of(ArtifactReader artifact, TensorDecoder decode) {
  auto impl = std::make_shared<Impl>();
  impl->tensors = stored_tensors(artifact);
  impl->artifact = std::move(artifact);
  impl->decode = std::move(decode);
  TensorSource source;
  source.impl_ = std::move(impl);
  return source;
}

const std::vector<StoredTensor>& TensorSource::tensors() const noexcept { return impl_->tensors; }

std::vector<std::byte> TensorSource::bytes(std::size_t index) const {
  if (impl_->decode) return impl_->decode(index);
  if (impl_->artifact) return decode_tensor(*impl_->artifact, index);
  const auto bytes = impl_->bundle.tensors.at(index).bytes;
  return {bytes.begin(), bytes.end()};
}

bool TensorSource::parallel() const noexcept {
  // The profile small is one stream, which is decoded in order.
  return !impl_->decode && !(impl_->artifact && impl_->artifact->profile() == CodecProfile::kSmall);
}

std::int64_t TensorSource::file_bytes() const noexcept {
  return impl_->artifact ? impl_->artifact->file_bytes() : impl_->bundle.file_bytes;
}

namespace {

double squares(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

std::vector<float> floats(const StoredTensor& tensor, std::span<const std::byte> bytes) {
  return numbers_of(
      {.name = tensor.name, .dtype = tensor.dtype, .shape = tensor.shape, .bytes = bytes});
}

/// Compares what both have. @return A's squares, where there is an error
double compare_values(ComparedTensor& tensor, std::span<const std::byte> a,
                      std::span<const std::byte> b) {
  if (!tensor.same_shape()) return 0;
  tensor.same = tensor.same_dtype() && std::equal(a.begin(), a.end(), b.begin(), b.end());
  if (!is_real(tensor.a->dtype) || !is_real(tensor.b->dtype)) return 0;
  const std::vector<float> before = floats(*tensor.a, a);
  const double had = squares(before);
  if (tensor.same) {
    tensor.error = 0;
    tensor.energy = 1;
    return had;
  }
  const std::vector<float> after = floats(*tensor.b, b);
  tensor.error = relative_error(before, after);
  tensor.energy = had > 0 ? squares(after) / had : 1;
  return had;
}

void count(const ComparedTensor& tensor, Comparison& result) {
  if (!tensor.b) {
    ++result.only_a;
  } else if (!tensor.a) {
    ++result.only_b;
  } else if (tensor.same) {
    ++result.same;
  } else {
    ++result.differ;
    result.other_shape += !tensor.same_shape();
    result.other_dtype += !tensor.same_dtype();
  }
}

}  // namespace

Comparison compare_tensors(const TensorSource& a, const TensorSource& b) {
  std::unordered_map<std::string_view, std::size_t> of_b;
  for (std::size_t i = 0; i < b.tensors().size(); ++i) of_b[b.tensors()[i].name] = i;
  Comparison result;
  struct Pair {
    std::size_t place, a, b;  ///< in the result and in the sources
  };
  std::vector<Pair> pairs;
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    const StoredTensor& tensor = a.tensors()[i];
    result.tensors.push_back({.name = tensor.name, .a = tensor});
    const auto found = of_b.find(tensor.name);
    if (found == of_b.end()) continue;
    result.tensors.back().b = b.tensors()[found->second];
    pairs.push_back({i, i, found->second});
    sizes.push_back(checked_elements(tensor.shape, "a tensor"));
    of_b.erase(found);
  }
  for (std::size_t i = 0; i < b.tensors().size(); ++i)
    if (of_b.contains(b.tensors()[i].name))
      result.tensors.push_back({.name = b.tensors()[i].name, .b = b.tensors()[i]});

  std::vector<double> had(pairs.size());
  for_bounded(sizes, a.parallel() && b.parallel() ? usable_processors() : 1,
              [&](std::size_t i, int) {
                ComparedTensor& tensor = result.tensors[pairs[i].place];
                if (tensor.same_shape())
                  had[i] = compare_values(tensor, a.bytes(pairs[i].a), b.bytes(pairs[i].b));
              });
  double error = 0, all = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    const ComparedTensor& tensor = result.tensors[pairs[i].place];
    if (!tensor.error) continue;
    error += *tensor.error * (had[i] > 0 ? had[i] : 0);
    all += had[i];
  }
  result.total_error = all > 0 ? error / all : 0;
  for (const ComparedTensor& tensor : result.tensors) count(tensor, result);
  return result;
}

}  // namespace gbcompress
