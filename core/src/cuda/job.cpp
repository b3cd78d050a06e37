#include "cuda/job.h"

#include <algorithm>
#include <type_traits>

#include "cuda/blocks.h"

namespace gbcompress::cuda {

template <typename Pointer>
Job::Job(const Device& device, const BankShape& shape, std::span<const TileMemory<Pointer>> tiles,
         const Budget& budget)
    : device_(device),
      budget_(budget),
      backward_(std::is_same_v<Pointer, const float*>),
      args_(shape_arguments(shape)) {
  launches_ = cut_pieces(shape, tiles, budget);
  prepare(shape);
}

template Job::Job(const Device&, const BankShape&, std::span<const TileTarget>, const Budget&);
template Job::Job(const Device&, const BankShape&, std::span<const TileSource>, const Budget&);

void Job::prepare(const BankShape& shape) {
  const auto upload = [&](const CodeTable& table) {
    return DeviceArray<float>(device_, packed_codes(table));
  };
  rows_ = upload(shape.codes.rows);
  cols_ = upload(shape.codes.cols);
  kernel_ = upload(shape.codes.kernel);
  args_.rows.values = rows_.data();
  args_.cols.values = cols_.data();
  args_.kernel.values = kernel_.data();
  args_.max_outer = launches_.max_outer;
  if (args_.layer_count > 2) args_.deep = deep_work(args_, backward_);
  pieces_ = DeviceArray<Piece>(device_, launches_.pieces);
  sums_ = DeviceArray<Sum>(device_, launches_.sums);
  launches_.pieces = {};
  launches_.sums = {};
}

Operation Job::operation() const {
  if (args_.layer_count > 2) return backward_ ? Operation::kBackwardDeep : Operation::kForwardDeep;
  return backward_ ? Operation::kBackward : Operation::kForward;
}

void Job::run(const float* theta, float* grad) const {
  Arguments args = args_;
  args.theta = theta;
  args.grad = grad;
  const DeviceArray<float> partial(device_, launches_.slots * args.parameters);
  args.partial = partial.data();
  std::int64_t largest = 0;
  for (const Wave& wave : launches_.waves) largest = std::max(largest, wave.pieces);
  if (largest == 0) return;
  const Grid most = make_grid(operation(), args, launches_, largest, budget_);
  const bool spills = args.layer_count > 2 && most.shared_bytes == 0;
  const DeviceArray<float> workspace(device_, spills ? most.blocks * args.deep.floats : 0);
  args.workspace = workspace.data();
  for (const Wave& wave : launches_.waves) {
    if (wave.pieces == 0) continue;
    args.pieces = pieces_.data() + wave.first_piece;
    args.piece_count = wave.pieces;
    device_.launch(operation(), args,
                   make_grid(operation(), args, launches_, wave.pieces, budget_));
    if (wave.sums == 0) continue;
    args.sums = sums_.data() + wave.first_sum;
    args.sum_count = wave.sums;
    device_.launch(Operation::kAddPartials, args,
                   make_grid(Operation::kAddPartials, args, launches_, wave.sums, budget_));
  }
}

}  // namespace gbcompress::cuda
