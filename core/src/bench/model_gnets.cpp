#include "gbcompress/model_gnets.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "bottleneck/parameter_gnets.h"
#include "bottleneck/placement.h"
#include "gbcompress/ranks.h"
#include "gnet/bank.h"
#include "ranks/collectives/average.h"

namespace gbcompress {
namespace {

void add_generated(ModelGNets& result, GNetTensor& tensor,
                   std::map<std::string, std::size_t>& by_key) {
  const auto [entry, added] = by_key.try_emplace(bank_key(*tensor.spec), result.banks.size());
  if (added) result.banks.push_back({bank_shape(*tensor.spec)});
  GNetBank& bank = result.banks[entry->second];
  const TileGrid grid = tensor.spec->grid();
  tensor.kind = GNetTensor::Kind::kGenerated;
  tensor.bank = entry->second;
  tensor.first_gnet = bank.gnets;
  bank.gnets += grid.tiles();
  bank.weights += grid.elements();
  result.gnet_parameters += spec_parameters(*tensor.spec);
}

}  // namespace

ModelGNets model_gnets(const std::vector<NamedParameter>& tensors, const Registry& types,
                       const BottleneckOptions& options) {
  ModelGNets result;
  std::map<std::string, std::size_t> by_key;
  for (const NamedParameter& parameter : tensors) {
    GNetTensor tensor;
    tensor.info = parameter.info;
    tensor.tied_to = parameter.tied_to;
    tensor.spec = spec_of(parameter, types, options);
    if (tensor.spec)
      add_generated(result, tensor, by_key);
    else if (!parameter.tied_to.empty())
      tensor.kind = GNetTensor::Kind::kTied;
    else if (!parameter.trainable)
      tensor.kind = GNetTensor::Kind::kBuffer;
    else
      result.plain_parameters += parameter.info.elements();
    if (parameter.trainable && parameter.tied_to.empty())
      result.trainable += parameter.info.elements();
    result.tensors.push_back(std::move(tensor));
  }
  return result;
}

OwnerRows owner_rows(const ModelGNets& gnets, int world) {
  std::vector<BankLoad> loads;
  for (const GNetBank& bank : gnets.banks) loads.push_back(load_of(bank.shape, bank.gnets));
  return share_out(loads, world);
}

std::vector<OwnerShare> owners_of(const GNetTensor& tensor, const OwnerRows& rows) {
  std::vector<OwnerShare> result;
  if (!tensor.spec) return result;
  const std::vector<std::int64_t>& bank = rows[tensor.bank];
  const std::int64_t first = tensor.first_gnet, last = first + tensor.spec->grid().tiles();
  for (std::size_t r = 0; r + 1 < bank.size(); ++r) {
    const std::int64_t shared = std::min(last, bank[r + 1]) - std::max(first, bank[r]);
    if (shared > 0) result.push_back({static_cast<int>(r), shared});
  }
  return result;
}

namespace {

/// Sizes of the tensors that are averaged over the ranks in every step, in order: gradients of
/// plain parameters, then floating-point buffers.
std::vector<std::int64_t> averaged_sizes(const ModelGNets& gnets) {
  std::vector<std::int64_t> sizes;
  for (const auto kind : {GNetTensor::Kind::kPlain, GNetTensor::Kind::kBuffer})
    for (const GNetTensor& tensor : gnets.tensors)
      if (tensor.kind == kind && is_real(tensor.info.dtype))
        sizes.push_back(tensor.info.elements());
  return sizes;
}

/// Weights of one bank that each rank generates as owner: [rank]. Cropped tiles count as what they
/// are.
std::vector<std::int64_t> owned_weights(const ModelGNets& gnets, std::size_t bank,
                                        const std::vector<std::int64_t>& rows) {
  std::vector<std::int64_t> result(rows.size() - 1, 0);
  std::size_t rank = 0;
  std::int64_t gnet = 0;
  for (const GNetTensor& tensor : gnets.tensors) {
    if (!tensor.spec || tensor.bank != bank) continue;
    const TileGrid grid = tensor.spec->grid();
    for (std::int64_t t = 0; t < grid.tiles(); ++t, ++gnet) {
      while (gnet >= rows[rank + 1]) ++rank;
      const TileExtent extent = grid.extent(t);
      result[rank] += extent.rows * extent.cols * grid.kernel();
    }
  }
  return result;
}

}  // namespace

std::vector<std::int64_t> step_bytes(const ModelGNets& gnets, std::span<const Placement> placements,
                                     int world) {
  const auto ranks = static_cast<std::size_t>(world);
  std::vector<std::int64_t> result(ranks, 0);
  if (world == 1) return result;
  const OwnerRows rows = placements.empty() ? OwnerRows() : owner_rows(gnets, world);
  std::vector<std::int64_t> pieces(ranks, 0);  // bytes of what each rank owns, all banks together
  std::vector<std::int64_t> reduced;           // bytes of each all_reduce
  for (std::size_t b = 0; b < placements.size(); ++b) {
    if (placements[b] == Placement::kReplicated) {
      reduced.push_back(4 * gnets.banks[b].parameters());
      continue;
    }
    const std::vector<std::int64_t> weights = owned_weights(gnets, b, rows[b]);
    for (std::size_t r = 0; r < ranks; ++r) pieces[r] += 4 * weights[r];
  }
  const std::vector<std::int64_t> sizes = averaged_sizes(gnets);
  for (const auto& [first, last] : Average::chunks(sizes))
    reduced.push_back(4 * std::accumulate(sizes.begin() + static_cast<std::ptrdiff_t>(first),
                                          sizes.begin() + static_cast<std::ptrdiff_t>(last),
                                          std::int64_t{0}));
  for (int r = 0; r < world; ++r) {
    std::int64_t& sent = result[static_cast<std::size_t>(r)];
    // Gradients of weights to their owners, weights back. Buckets do not change the sums.
    sent += wire::reduce_scatter(pieces, r) + wire::all_gather(pieces, r);
    for (const std::int64_t bytes : reduced) sent += wire::all_reduce(bytes, r, world);
  }
  return result;
}

}  // namespace gbcompress
