#include "bottleneck/sized_gnets.h"

#include <ATen/ATen.h>

#include <algorithm>

#include "bottleneck/parameter_gnets.h"
#include "gbcompress/error.h"
#include "gbcompress/recipe.h"

namespace gbcompress {
namespace {

/// Tensors for the recipe, and the owners of their values.
struct Sized {
  std::vector<at::Tensor> alive;
  std::vector<SizedTensor> tensors;
  SizedFile file;

  Sized(const std::vector<NamedParameter>& from, const Registry& registry,
        const BottleneckOptions& options)
      : file{options.coding, options.arch, options.settings} {
    for (const NamedParameter& p : from) {
      const ParameterInfo& info = p.info;
      alive.push_back(p.tensor.detach().to(at::kCPU, to_scalar_type(info.dtype)).contiguous());
      const at::Tensor& values = alive.back();
      const WeightMode mode = mode_of(info.name, options);
      const bool trains = p.trainable && is_real(info.dtype) && info.elements() > 0;
      tensors.push_back({.info = info,
                         .tied_to = p.tied_to,
                         .quantized = trains && mode == WeightMode::kQuantized,
                         .code_plain = codes_plain(p, options),
                         .values = {static_cast<const std::byte*>(values.const_data_ptr()),
                                    static_cast<std::size_t>(values.nbytes())},
                         .spec = [&p, &registry, own = BottleneckOptions(options)](
                                     const GNetOptions& gnet) mutable {
                           own.gnet = gnet;
                           return spec_of(p, registry, own);
                         }});
    }
  }
};

}  // namespace

bool leaves_generator_open(const BottleneckOptions& options) {
  const GNetOptions usual;
  const GNetOptions& gnet = options.gnet;
  return gnet.generator == usual.generator && gnet.hidden == usual.hidden &&
         gnet.rank == usual.rank && !gnet.row_code && !gnet.col_code &&
         std::none_of(options.layers.begin(), options.layers.end(), [](const LayerRule& rule) {
           return rule.hidden || rule.row_code || rule.col_code;
         });
}

std::int64_t expected_bytes(const std::vector<NamedParameter>& tensors, const Registry& registry,
                            const BottleneckOptions& options) {
  const Sized sized(tensors, registry, options);
  return expected_bytes(sized.tensors, options.gnet, sized.file);
}

BottleneckOptions options_for_size(const std::vector<NamedParameter>& tensors,
                                   const Registry& registry, BottleneckOptions options,
                                   std::int64_t max_bytes) {
  const Sized sized(tensors, registry, options);
  options.gnet = gnets_for_size(sized.tensors, options.gnet, sized.file, max_bytes).gnet;
  return options;
}

BottleneckOptions with_recipe(const std::vector<NamedParameter>& tensors, const Registry& registry,
                              const BottleneckOptions& options) {
  if (!options.target_ratio) return options;
  if (options.gnet.ratio)
    throw Error(Errc::kUsage,
                "target_ratio is the ratio of the file, and gnet.ratio that of each g-net; set one "
                "of both");
  const AdamWOptions usual;
  BottleneckOptions result = options;
  const GNetRecipe recipe =
      gnet_recipe(options.gnet, leaves_generator_open(options), *options.target_ratio);
  result.gnet = recipe.gnet;
  result.code_plain = recipe.code_plain;
  result.schedule = options.schedule.value_or(recipe.schedule);
  if (options.gnet_optimizer.lr == usual.lr) result.gnet_optimizer.lr = recipe.lr;
  if (options.gnet_optimizer.weight_decay == usual.weight_decay)
    result.gnet_optimizer.weight_decay = recipe.weight_decay;
  const Sized sized(tensors, registry, result);
  const std::int64_t bytes = bytes_for_ratio(sized.tensors, *options.target_ratio);
  result.gnet = gnets_for_size(sized.tensors, result.gnet, sized.file, bytes).gnet;
  return result;
}

}  // namespace gbcompress
