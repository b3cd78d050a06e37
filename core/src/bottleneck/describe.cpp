#include <ATen/ATen.h>

#include <cstdio>

#include "base/text.h"
#include "bottleneck/impl.h"

namespace gbcompress {
namespace {

std::string joined(const std::vector<std::int64_t>& values, const char* between) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += (i ? between : "") + std::to_string(values[i]);
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

std::int64_t GenomicBottleneck::gnet_parameters() const { return impl_->theta.numel(); }

std::int64_t GenomicBottleneck::plain_parameters() const {
  std::int64_t count = 0;
  for (const NamedParameter& p : impl_->tensors)
    if (p.trainable && p.tied_to.empty()) count += p.info.elements();
  for (const Impl::Route& route : impl_->routes)
    count -= impl_->tensors[route.tensor].info.elements();
  return count;
}

Ratio GenomicBottleneck::ratio(Coding coding) const {
  std::int64_t dense = 0, dense_bytes = 0;
  for (const NamedParameter& p : impl_->tensors) {
    if (!p.tied_to.empty()) continue;
    if (p.trainable) dense += p.info.elements();
    dense_bytes += p.info.elements() * dtype_bits(p.info.dtype) / 8;
  }
  ArtifactWriter writer("", "");
  write_to(writer, coding);
  const std::int64_t stored = gnet_parameters() + plain_parameters();
  return {stored > 0 ? static_cast<double>(dense) / static_cast<double>(stored) : 1,
          static_cast<double>(dense_bytes) / static_cast<double>(writer.encode().size())};
}

std::string GenomicBottleneck::describe() const {
  std::vector<std::vector<std::string>> rows = {
      {"name", "shape", "type", "tiles", "g-net", "parameters", "ratio", "rank"}};
  std::vector<const Layer*> generated(impl_->tensors.size(), nullptr);
  for (std::size_t l = 0; l < impl_->layers.size(); ++l)
    generated[impl_->routes[l].tensor] = &impl_->layers[l];
  for (std::size_t t = 0; t < impl_->tensors.size(); ++t) {
    const NamedParameter& p = impl_->tensors[t];
    const std::string shape = joined(p.info.shape, "x");
    if (const Layer* layer = generated[t]) {
      const TileGrid grid = layer->plan.grid();
      const std::int64_t stored = plan_parameters(layer->plan);
      char ratio[32];
      std::snprintf(ratio, sizeof ratio, "%.2f",
                    static_cast<double>(p.info.elements()) / static_cast<double>(stored));
      rows.push_back({printable(p.info.name), shape, layer->type_id,
                      std::to_string(grid.tiles()) + " of " + std::to_string(grid.tile_rows()) +
                          "x" + std::to_string(grid.tile_cols()),
                      generator_text(layer->plan), std::to_string(stored), ratio, "0"});
    } else {
      const std::string kind = !p.tied_to.empty() ? "tied" : p.trainable ? "plain" : "buffer";
      rows.push_back({printable(p.info.name), shape, kind, "-", "-",
                      p.tied_to.empty() ? std::to_string(p.info.elements()) : "0", "1.00", "0"});
    }
  }
  return aligned(rows);
}

}  // namespace gbcompress
