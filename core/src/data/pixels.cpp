#include "data/pixels.h"

#include <ATen/ATen.h>

#include <cmath>

#include "gbcompress/error.h"

namespace gbcompress {
namespace {

at::Tensor as_bytes(std::span<const std::byte> bytes) {
  at::Tensor tensor = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

void check(const std::vector<double>& values, std::size_t channels, const char* name,
           bool above_0) {
  if (values.size() != channels)
    throw Error(Errc::kUsage, std::string("the data's ") + name + " has " +
                                  std::to_string(values.size()) + " values, its images have " +
                                  std::to_string(channels) +
                                  (channels == 1 ? " channel" : " channels"));
  for (double value : values)
    if (!std::isfinite(value) || (above_0 && value <= 0))
      throw Error(Errc::kUsage, std::string("the data's ") + name + " must hold finite values" +
                                    (above_0 ? " above 0" : ""));
}

}  // namespace

Normalisation normalisation(const DataOptions& options, const Normalisation& habit) {
  const std::size_t channels = habit.mean.size();
  // Whoever gives one of the two does not want half of a habit with it.
  const bool own = !options.mean.empty() || !options.std.empty();
  Normalisation result = habit;
  if (own) result = {std::vector<double>(channels, 0.0), std::vector<double>(channels, 1.0)};
  if (!options.mean.empty()) result.mean = options.mean;
  if (!options.std.empty()) result.std = options.std;
  check(result.mean, channels, "mean", false);
  check(result.std, channels, "std", true);
  return result;
}

at::Tensor to_inputs(std::span<const std::byte> pixels, const std::vector<std::int64_t>& shape,
                     double brightest, const Normalisation& by) {
  at::Tensor inputs = as_bytes(pixels).to(at::kFloat).div_(brightest).view(shape);
  for (std::size_t channel = 0; channel < by.mean.size(); ++channel)
    if (by.mean[channel] != 0 || by.std[channel] != 1)
      inputs.select(1, static_cast<std::int64_t>(channel))
          .sub_(by.mean[channel])
          .div_(by.std[channel]);
  return inputs;
}

at::Tensor to_targets(std::span<const std::byte> labels) { return as_bytes(labels).to(at::kLong); }

}  // namespace gbcompress
