#include "compress/planned_size.h"

#include <ATen/ATen.h>

#include <cmath>

#include "base/random.h"
#include "bottleneck/planner.h"
#include "search/bracket_search.h"

namespace gbcompress {
namespace {

/// Coded parameters are planned with log2 of it bits each: a price from the start of training
/// leaves 3.5 to 5, and what is not used up goes to finer steps.
constexpr std::int32_t kCodedRange = 24;
/// Of residual parameters one in so many is not zero: about a bit each, which a price reaches
/// without losing much.
constexpr std::uint32_t kResidualZeros = 4;

}  // namespace

std::int64_t planned_bytes(const std::vector<NamedParameter>& tensors, const Registry& registry,
                           const BottleneckOptions& options) {
  ArtifactWriter writer(options.arch, options.settings);
  const RandomStream noise(0, "planned_bytes");
  for (const NamedParameter& p : tensors) {
    const ParameterInfo& info = p.info;
    if (!p.tied_to.empty()) {
      writer.add_tied(info.name, p.tied_to);
    } else if (const auto plan = plan_parameter(p, registry, options)) {
      const auto count = static_cast<std::size_t>(plan_parameters(*plan));
      if (options.coding == Coding::kCoded) {
        CodedTheta integers{std::vector<int>(gnet_blocks(*plan).size()), {}};
        for (std::size_t i = 0; i < count; ++i)
          integers.integers.push_back(static_cast<std::int32_t>(noise.bits(i) % kCodedRange) -
                                      kCodedRange / 2);
        writer.add_generated_coded(info.name, info.dtype, info.shape, *plan, std::move(integers));
        continue;
      }
      std::vector<float> theta(count);
      for (std::size_t i = 0; i < theta.size(); ++i)
        theta[i] = static_cast<float>(noise.bits(i)) * 0x1p-32f - 0.5f;
      writer.add_generated(info.name, info.dtype, info.shape, *plan, options.coding, theta);
    } else if (p.trainable && is_real(info.dtype) && info.elements() > 0 &&
               mode_of(info.name, options) == WeightMode::kQuantized) {
      CodedValues integers{.grid = default_grid(info.shape)};
      for (std::int64_t i = 0; i < info.elements(); ++i) {
        const std::uint32_t bits = noise.bits(static_cast<std::uint64_t>(i));
        integers.integers.push_back(bits % kResidualZeros ? 0 : (bits & 0x10000 ? 1 : -1));
      }
      writer.add_coded(info.name, info.dtype, info.shape, std::move(integers));
    } else {
      const at::Tensor values =
          p.tensor.detach().to(at::kCPU, to_scalar_type(info.dtype)).contiguous();
      writer.add_plain(info.name, info.dtype, info.shape,
                       {static_cast<const std::byte*>(values.data_ptr()),
                        static_cast<std::size_t>(values.nbytes())});
    }
  }
  return static_cast<std::int64_t>(writer.encode().size());
}

SizedOptions options_for_size(const std::vector<NamedParameter>& tensors, const Registry& registry,
                              BottleneckOptions options, std::int64_t max_bytes) {
  const auto bytes_at = [&](double ratio) {
    options.gnet.ratio = ratio;
    return planned_bytes(tensors, registry, options);
  };
  // Weights per g-net parameter: from barely worth it to a g-net for a whole large layer. The size
  // falls with the ratio but for the small steps of the tile sides.
  const BracketState bracket{.holds = 1e6, .fails = 1.05};
  std::int64_t smallest = bytes_at(*bracket.holds);
  if (smallest > max_bytes) return {options, smallest, false};
  if (const std::int64_t largest = bytes_at(*bracket.fails); largest <= max_bytes)
    return {options, largest, true};
  BracketSearch search({.scale = Scale::kLog, .cuts = 24, .resolution = 1.001}, bracket);
  while (const auto ratio = search.next()) search.tried(*ratio, bytes_at(*ratio) <= max_bytes);
  const std::int64_t planned = bytes_at(*search.holds());
  return {options, planned, planned <= max_bytes};
}

}  // namespace gbcompress
