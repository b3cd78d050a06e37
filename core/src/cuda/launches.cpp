#include "cuda/launches.h"

#include <algorithm>
#include <limits>

#include "cuda/blocks.h"
#include "gbcompress/error.h"
#include "gnet/fused.h"

namespace gbcompress::cuda {
namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
/// The second dimension of a grid goes to 65535.
constexpr std::int64_t kMostParameters = std::int64_t{65'535} * kSumThreads;
/// Shared memory that a block of a deep g-net may take; every GPU from sm_80 on has it.
constexpr std::int64_t kSharedFloats = 96 * 1024 / sizeof(float);

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

[[noreturn]] void too_large(const std::string& what) {
  throw Error(Errc::kLimit, what + " is more than the cuda kernel can count; use kernel fused");
}

/// Length of the parts of n that are at most `limit` long, all about equal.
std::int64_t part_length(std::int64_t n, std::int64_t limit) {
  return std::min(limit, ceil_div(ceil_div(n, ceil_div(n, limit)), 8) * 8);
}

std::int64_t inner_limit(const BankShape& shape, bool backward) {
  if (shape.hidden.size() > 1) return kDeepInner;
  return backward ? kBackwardSide : kForwardInner;
}
/// @param inner  of the piece
std::int64_t outer_limit(const BankShape& shape, bool backward, std::int64_t inner) {
  if (shape.hidden.size() > 1) return kDeepOuter;
  return backward ? kBackwardSide : forward_outer(inner);
}

/// Gives the pieces [first, end) of one tile their rows of partial sums, starting new waves where
/// they are full.
void give_slots(Launches& launches, std::int64_t first, std::int64_t max_slots,
                std::int32_t& used) {
  for (std::int64_t p = first; p < static_cast<std::int64_t>(launches.pieces.size()); ++p) {
    if (used == max_slots) {
      launches.waves.push_back({p, 0, static_cast<std::int64_t>(launches.sums.size()), 0});
      used = 0;
    }
    Wave& wave = launches.waves.back();
    if (p == first || wave.first_piece == p) {
      launches.sums.push_back({launches.pieces[p].tile, used, 0});
      ++wave.sums;
    }
    ++launches.sums.back().count;
    launches.pieces[p].slot = used++;
    launches.slots = std::max(launches.slots, used);
  }
}

template <typename Pointer>
Launches cut(const BankShape& shape, std::span<const TileMemory<Pointer>> tiles,
             const Budget& budget, bool backward) {
  if (static_cast<std::int64_t>(tiles.size()) > kMost)
    too_large(std::to_string(tiles.size()) + " tiles");
  const std::int64_t max_slots =
      std::clamp<std::int64_t>(budget.partial / shape.parameters(), 1, kMost);
  Launches launches;
  launches.waves.emplace_back();
  std::int32_t used = 0;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const FusedAxes axes = fused_axes(shape, tiles[t]);
    if (axes.outer == 0 || axes.inner == 0) continue;
    const std::int64_t inner = part_length(axes.inner, inner_limit(shape, backward));
    const std::int64_t outer = part_length(axes.outer, outer_limit(shape, backward, inner));
    const auto first = static_cast<std::int64_t>(launches.pieces.size());
    for (std::int64_t i = 0; i < axes.outer; i += outer)
      for (std::int64_t j = 0; j < axes.inner; j += inner) {
        Piece piece;
        piece.data = const_cast<float*>(tiles[t].data);
        piece.outer_stride = axes.outer_stride;
        piece.inner_stride = axes.inner_stride;
        piece.first_outer = static_cast<std::int32_t>(i);
        piece.first_inner = static_cast<std::int32_t>(j);
        piece.outer = static_cast<std::int32_t>(std::min(outer, axes.outer - i));
        piece.inner = static_cast<std::int32_t>(std::min(inner, axes.inner - j));
        piece.tile = static_cast<std::int32_t>(t);
        piece.scale = tiles[t].scale;
        piece.swapped = axes.swapped;
        launches.max_outer = std::max(launches.max_outer, piece.outer);
        launches.max_inner = std::max(launches.max_inner, piece.inner);
        launches.pieces.push_back(piece);
      }
    if (static_cast<std::int64_t>(launches.pieces.size()) > kMost) too_large("a bank of this size");
    if (backward && static_cast<std::int64_t>(launches.pieces.size()) > first + 1)
      give_slots(launches, first, max_slots, used);
  }
  for (std::size_t w = 0; w < launches.waves.size(); ++w) {
    const bool last = w + 1 == launches.waves.size();
    launches.waves[w].pieces = (last ? static_cast<std::int64_t>(launches.pieces.size())
                                     : launches.waves[w + 1].first_piece) -
                               launches.waves[w].first_piece;
  }
  return launches;
}

}  // namespace

Launches cut_pieces(const BankShape& shape, std::span<const TileTarget> tiles,
                    const Budget& budget) {
  return cut(shape, tiles, budget, false);
}
Launches cut_pieces(const BankShape& shape, std::span<const TileSource> tiles,
                    const Budget& budget) {
  return cut(shape, tiles, budget, true);
}

Arguments shape_arguments(const BankShape& shape) {
  if (shape.generator != Generator::kGNet)
    throw Error(Errc::kUnsupported, "the cuda kernel does not support the generator " +
                                        std::string(generator_name(shape.generator)) +
                                        "; use kernel fused");
  if (shape.has_latents())
    throw Error(Errc::kUnsupported,
                "the cuda kernel does not support trained codes; use kernel fused");
  if (shape.hidden.size() >= kMaxLayers)
    throw Error(Errc::kUnsupported, "the cuda kernel supports g-nets of 1 to " +
                                        std::to_string(kMaxLayers - 1) + " hidden layers, not " +
                                        std::to_string(shape.hidden.size()) + "; use kernel fused");
  if (shape.parameters() > kMostParameters)
    too_large(std::to_string(shape.parameters()) + " parameters of a g-net");
  if (std::max(shape.tile_rows, shape.tile_cols) > kMost / shape.kernel)
    too_large("a tile of this size");
  Arguments args;
  const TileCodes& codes = shape.codes;
  const auto narrow = [](std::int64_t n) { return static_cast<std::int32_t>(n); };
  const auto table = [&](const CodeTable& t, std::int64_t input) {
    return Table{nullptr, narrow(t.count + kCodePadding), narrow(t.width), narrow(input)};
  };
  args.rows = table(codes.rows, 0);
  args.cols = table(codes.cols, codes.rows.width);
  args.kernel = table(codes.kernel, codes.rows.width + codes.cols.width);
  args.kernel_positions = narrow(shape.kernel);
  args.parameters = shape.parameters();
  for (const BankShape::Layer& layer : shape.layers())
    args.layers[args.layer_count++] = {narrow(layer.inputs), narrow(layer.outputs), layer.weight,
                                       layer.bias};
  args.units = backward_units(shape.hidden[0]);
  return args;
}

std::vector<float> packed_codes(const CodeTable& table) {
  const std::int64_t chunks = std::max<std::int64_t>(1, ceil_div(table.width, kCodeChunk));
  const std::int64_t stride = table.count + kCodePadding;
  std::vector<float> packed(static_cast<std::size_t>(chunks * stride * kCodeChunk), 0.0f);
  for (std::int64_t n = 0; n < table.count; ++n)
    for (std::int64_t c = 0; c < table.width; ++c)
      packed[static_cast<std::size_t>((c / kCodeChunk * stride + n) * kCodeChunk +
                                      c % kCodeChunk)] =
          table.values[static_cast<std::size_t>(n * table.width + c)];
  return packed;
}

std::int32_t backward_units(std::int64_t hidden) {
  std::int32_t best = kBackwardUnits;
  for (const std::int32_t units : {16, 8})  // one more for what each block does besides
    if (ceil_div(hidden, units) * (units + 1) < ceil_div(hidden, best) * (best + 1)) best = units;
  return best;
}

Grid make_grid(Operation operation, const Arguments& args, const Launches& launches,
               std::int64_t count, const Budget& budget) {
  const std::int64_t bytes = sizeof(float);
  switch (operation) {
    case Operation::kForward: {
      const std::int64_t blocks =
          ceil_div(launches.max_outer, kBlockRows) * ceil_div(launches.max_inner, kBlockCols);
      const std::int64_t threads =
          std::clamp<std::int64_t>(ceil_div(blocks, 32) * 32, 64, kForwardThreads);
      return {count, 1, static_cast<std::int32_t>(threads), kForwardFloats * bytes};
    }
    case Operation::kBackward: {
      const std::int64_t whole = 32 / args.units;  // workers of one warp
      const auto workers =
          static_cast<std::int32_t>(ceil_div(ceil_div(launches.max_inner, kOwned), whole) * whole);
      return {count, static_cast<std::int32_t>(ceil_div(args.layers[0].outputs, args.units)),
              workers * args.units,
              backward_floats(workers, args.units, launches.max_outer) * bytes};
    }
    case Operation::kAddPartials:
      return {count, static_cast<std::int32_t>(ceil_div(args.parameters, kSumThreads)), kSumThreads,
              0};
    case Operation::kForwardDeep:
    case Operation::kBackwardDeep:
      break;
  }
  if (args.deep.floats <= kSharedFloats) return {count, 1, kDeepThreads, args.deep.floats * bytes};
  const std::int64_t workspaces = budget.workspace / args.deep.floats;
  if (workspaces < 1)
    throw Error(Errc::kLimit,
                "a g-net this wide needs " + std::to_string(args.deep.floats * bytes) +
                    " bytes of activations on the GPU, " +
                    std::to_string(budget.workspace * bytes) + " are allowed; use kernel fused");
  return {std::min(count, workspaces), 1, kDeepThreads, 0};
}

}  // namespace gbcompress::cuda
