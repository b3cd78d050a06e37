#include <algorithm>
#include <utility>

#include "gnet/fused.h"
#include "gnet/threaded_kernels.h"

namespace gbcompress {
namespace {

/// Outer rows of one piece of work. Fixed, so that sums have the same shape for any thread count.
constexpr std::int64_t kRows = 128;

struct Piece {
  std::size_t tile;
  std::int64_t first, last;
};

template <typename Pointer>
std::vector<Piece> pieces_of(const BankShape& shape, std::span<const TileMemory<Pointer>> tiles) {
  std::vector<Piece> pieces;
  for (std::size_t t = 0; t < tiles.size(); ++t) {
    const std::int64_t outer = fused_axes(shape, tiles[t]).outer;
    for (std::int64_t first = 0; first < outer; first += kRows)
      pieces.push_back({t, first, std::min(outer, first + kRows)});
  }
  return pieces;
}

/// Weights times hidden units below which waking another thread costs more than it saves: about
/// 20 microseconds of one core.
constexpr std::int64_t kThreadWork = std::int64_t{1} << 18;

/// Runs body(piece, scratch) for all pieces, several threads, a scratch for each.
template <typename Body>
void for_pieces(const RangeRunner& run, const BankShape& shape, const std::vector<Piece>& pieces,
                const Body& body) {
  std::int64_t widths = shape.rank;
  for (std::int64_t width : shape.hidden) widths += width;
  const std::int64_t work = std::max<std::int64_t>(
      1, std::min(kRows * shape.tile_cols * shape.kernel, shape.positions()) * widths);
  run(static_cast<std::int64_t>(pieces.size()), (kThreadWork + work - 1) / work,
      [&](std::int64_t begin, std::int64_t end) {
        FusedScratch scratch;
        for (std::int64_t p = begin; p < end; ++p) body(static_cast<std::size_t>(p), scratch);
      });
}

/// The codes of both orientations, made once unless every g-net has its own.
class SharedCodes {
 public:
  explicit SharedCodes(const BankShape& shape) : shape_(shape) {
    if (!shape.has_latents())
      for (const bool swapped : {false, true})
        codes_[swapped] = fused_codes(shape, swapped, nullptr);
  }
  template <typename Use>
  void with(bool swapped, const float* theta, const Use& use) const {
    if (shape_.has_latents())
      use(fused_codes(shape_, swapped, theta));
    else
      use(codes_[swapped]);
  }

 private:
  const BankShape& shape_;
  FusedCodes codes_[2];
};

class FusedKernel final : public TileKernel {
 public:
  explicit FusedKernel(RangeRunner run) : run_(std::move(run)) {}
  std::string_view name() const noexcept override { return "fused"; }

 private:
  void forward_impl(const BankShape& shape, std::span<const float> theta,
                    std::span<const TileTarget> tiles) const override {
    const SharedCodes codes(shape);
    const auto pieces = pieces_of(shape, tiles);
    for_pieces(run_, shape, pieces, [&](std::size_t p, FusedScratch& scratch) {
      const TileTarget& tile = tiles[pieces[p].tile];
      const float* own = theta.data() + offset(shape, pieces[p]);
      const FusedAxes axes = fused_axes(shape, tile);
      codes.with(axes.swapped, own, [&](const FusedCodes& codes_here) {
        const FusedPiece piece{shape, codes_here, own, axes, pieces[p].first, pieces[p].last};
        float* data = tile.data + piece.first * axes.outer_stride;
        if (is_product(shape.generator))
          fused_forward_product(piece, data, tile.scale, scratch);
        else if (shape.generator == Generator::kStochastic)
          fused_forward_stochastic(piece, tile, scratch);
        else
          (shape.hidden.size() == 1 ? fused_forward : fused_forward_deep)(piece, data, tile.scale,
                                                                          scratch);
      });
    });
  }

  void backward_impl(const BankShape& shape, std::span<const float> theta,
                     std::span<const TileSource> tiles, std::span<float> grad) const override {
    const SharedCodes codes(shape);
    const auto pieces = pieces_of(shape, tiles);
    const std::int64_t parameters = shape.parameters();
    // A tile of one piece adds to its gradient directly; the pieces of a larger tile each have a
    // buffer, added up in their order afterwards.
    std::vector<std::int64_t> buffer(pieces.size(), -1);
    std::int64_t buffers = 0;
    for (std::size_t p = 0; p < pieces.size(); ++p)
      if (pieces[p].first > 0 || pieces[p].last < fused_axes(shape, tiles[pieces[p].tile]).outer)
        buffer[p] = buffers++;
    std::vector<float> partial(static_cast<std::size_t>(buffers * parameters), 0.0f);
    for_pieces(run_, shape, pieces, [&](std::size_t p, FusedScratch& scratch) {
      const TileSource& tile = tiles[pieces[p].tile];
      const std::int64_t at = offset(shape, pieces[p]);
      const float* own = theta.data() + at;
      float* sum = buffer[p] < 0 ? grad.data() + at : partial.data() + buffer[p] * parameters;
      const FusedAxes axes = fused_axes(shape, tile);
      codes.with(axes.swapped, own, [&](const FusedCodes& codes_here) {
        const FusedPiece piece{shape, codes_here, own, axes, pieces[p].first, pieces[p].last};
        const float* data = tile.data + piece.first * axes.outer_stride;
        if (is_product(shape.generator))
          fused_backward_product(piece, data, tile.scale, sum, scratch);
        else if (shape.generator == Generator::kStochastic)
          fused_backward_stochastic(piece, tile, sum, scratch);
        else
          (shape.hidden.size() == 1 ? fused_backward : fused_backward_deep)(piece, data, tile.scale,
                                                                            sum, scratch);
      });
    });
    for (std::size_t p = 0; p < pieces.size(); ++p) {
      if (buffer[p] < 0) continue;
      float* total = grad.data() + offset(shape, pieces[p]);
      const float* part = partial.data() + buffer[p] * parameters;
      for (std::int64_t i = 0; i < parameters; ++i) total[i] += part[i];
    }
  }

  static std::int64_t offset(const BankShape& shape, const Piece& piece) {
    return static_cast<std::int64_t>(piece.tile) * shape.parameters();
  }

  RangeRunner run_;
};

}  // namespace

std::unique_ptr<TileKernel> make_fused_kernel_with(RangeRunner run) {
  return std::make_unique<FusedKernel>(std::move(run));
}

}  // namespace gbcompress
