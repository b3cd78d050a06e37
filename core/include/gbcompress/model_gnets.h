#pragma once
/// The g-nets of a whole model from names and shapes alone, and what its ranks send. Nothing the
/// size of the model is allocated: 7 billion weights take milliseconds. No LibTorch.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "gbcompress/gnet.h"
#include "gbcompress/options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

class Registry;
struct NamedParameter;

/// One tensor. Generated ones have a specification and a place in a bank.
struct GNetTensor {
  enum class Kind : std::uint8_t { kGenerated, kPlain, kTied, kBuffer };
  ParameterInfo info;
  Kind kind = Kind::kPlain;
  std::string tied_to;
  std::optional<GNetSpec> spec;
  std::size_t bank = 0;         ///< index into ModelGNets::banks
  std::int64_t first_gnet = 0;  ///< its first one in the bank
};

/// All g-nets of one shape, as the bottleneck runs them together.
struct GNetBank {
  BankShape shape;
  std::int64_t gnets = 0;
  std::int64_t weights = 0;  ///< that they generate

  std::int64_t parameters() const noexcept { return gnets * shape.parameters(); }
};

struct ModelGNets {
  std::vector<GNetTensor> tensors;  ///< in the order given
  std::vector<GNetBank> banks;
  std::int64_t trainable = 0;         ///< numbers of all trainable tensors
  std::int64_t gnet_parameters = 0;   ///< all g-nets together
  std::int64_t plain_parameters = 0;  ///< trainable, not generated
};

/// What a GenomicBottleneck of these tensors would be. Only infos, ties and whether a tensor is
/// trainable are looked at; the tensors themselves may be undefined.
/// @throws Error(kPluginMissing), Error(kUsage) as the bottleneck's constructor
ModelGNets model_gnets(const std::vector<NamedParameter>& tensors, const Registry& types,
                       const BottleneckOptions& options = {});

/// Which g-nets belong to which rank: [bank][rank], world + 1 numbers a bank; first[r] up to
/// first[r + 1] are rank r's.
using OwnerRows = std::vector<std::vector<std::int64_t>>;
OwnerRows owner_rows(const ModelGNets& gnets, int world);
/// The g-nets of one generated tensor, by owner, in order; ranks without any are left out.
struct OwnerShare {
  int rank = 0;
  std::int64_t gnets = 0;
};
std::vector<OwnerShare> owners_of(const GNetTensor& tensor, const OwnerRows& rows);

/// Bytes that each rank sends in one step, by the formulas of gbcompress/traffic.h: [rank].
/// @param placements  kOwner or kReplicated, one a bank; empty: only what plain parameters and
///                    buffers send
std::vector<std::int64_t> step_bytes(const ModelGNets& gnets, std::span<const Placement> placements,
                                     int world);

}  // namespace gbcompress
