#include <ATen/ATen.h>

#include <algorithm>
#include <cstdio>

#include "bottleneck/impl.h"
#include "bottleneck/parameter_gnets.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

template <typename Number>
std::string joined(const std::vector<Number>& values, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i > 0) text += between;
    text += std::to_string(values[i]);
  }
  return text.empty() ? "scalar" : text;
}

/// Left-aligned columns, two blanks apart, as wide as their widest cell.
std::string aligned(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t c = 0; c < row.size(); ++c) {
      if (c == widths.size()) widths.push_back(0);
      widths[c] = std::max(widths[c], row[c].size());
    }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t c = 0; c < row.size(); ++c) {
      line += row[c];
      if (c + 1 < row.size()) line.append(widths[c] - row[c].size() + 2, ' ');
    }
    text += line + "\n";
  }
  return text;
}

}  // namespace

std::int64_t gnet_parameters(const GenomicBottleneck& bottleneck) {
  std::int64_t count = 0;
  for (const GeneratedLayer& layer : bottleneck.layers()) count += layer.theta.numel();
  return count;
}

std::int64_t plain_parameters(const GenomicBottleneck& bottleneck) {
  std::int64_t count = 0;
  for (const NamedParameter& p : bottleneck.tensors())
    if (p.trainable && p.tied_to.empty()) count += p.info.elements();
  for (const GeneratedLayer& layer : bottleneck.layers()) count -= layer.weights.numel();
  return count;
}

std::vector<at::Tensor> GenomicBottleneck::sgd_parameters() const {
  std::vector<at::Tensor> result;
  if (impl_->options.plain_optimizer.optimizer != OptimizerRule::kSgd) return result;
  for (const std::size_t t : impl_->plain) result.push_back(impl_->tensors[t].tensor);
  return result;
}

std::vector<std::string> GenomicBottleneck::Impl::row(std::size_t t) const {
  const NamedParameter& p = tensors[t];
  const std::string name = printable(p.info.name), shape = joined(p.info.shape, "x");
  const std::string everywhere = ranks.group ? "all" : "0";
  for (std::size_t l = 0; l < generated.layers.size(); ++l) {
    if (generated.routes[l].tensor != t) continue;
    const Layer& layer = generated.layers[l];
    const TileGrid grid = layer.spec.grid();
    const std::int64_t stored = spec_parameters(layer.spec);
    char ratio[32];
    std::snprintf(ratio, sizeof ratio, "%.2f",
                  static_cast<double>(p.info.elements()) / static_cast<double>(stored));
    return {name,
            shape,
            layer.type_id,
            std::to_string(grid.tiles()) + " of " + std::to_string(grid.tile_rows()) + "x" +
                std::to_string(grid.tile_cols()),
            generator_text(layer.spec),
            std::to_string(stored),
            ratio,
            layer.replicated ? "all" : joined(layer.ranks, ",")};
  }
  const bool quantized =
      std::find(integers.tensors.begin(), integers.tensors.end(), t) != integers.tensors.end();
  const std::string kind = !p.tied_to.empty()                                       ? "tied"
                           : quantized                                              ? "quantized"
                           : !p.trainable                                           ? "buffer"
                           : codes_plain(p, options) && p.info.dtype == DType::kF32 ? "short floats"
                                                                                    : "exact";
  return {name,   shape,     kind,
          "-",    "-",       p.tied_to.empty() ? std::to_string(p.info.elements()) : "0",
          "1.00", everywhere};
}

std::string GenomicBottleneck::describe() const {
  std::vector<std::vector<std::string>> rows = {
      {"name", "shape", "type", "tiles", "g-net", "parameters", "ratio", "rank"}};
  for (std::size_t t = 0; t < impl_->tensors.size(); ++t) rows.push_back(impl_->row(t));
  std::string text = aligned(rows);
  for (const std::string& note : impl_->ranks.notes) text += note + "\n";
  return text;
}

}  // namespace gbcompress
