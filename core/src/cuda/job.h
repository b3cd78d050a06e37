#pragma once
/// One bank's tiles in one direction, ready to run: pieces, sums and codes lie on the device.

#include <vector>

#include "cuda/device.h"
#include "cuda/launches.h"

namespace gbcompress::cuda {

class Job {
 public:
  /// @param tiles   their memory is on the device
  /// @param device  must outlive the job
  /// @throws as shape_arguments, cut_pieces and make_grid
  template <typename Pointer>
  Job(const Device& device, const BankShape& shape, std::span<const TileMemory<Pointer>> tiles,
      const Budget& budget);

  /// Queues the work; what it needs besides is allocated and freed on the same stream.
  /// @param theta  [tiles, parameters] on the device
  /// @param grad   the same, for backward; null for forward
  void run(const float* theta, float* grad) const;

 private:
  void prepare(const BankShape& shape);
  Operation operation() const;

  const Device& device_;
  Budget budget_;
  bool backward_;
  Launches launches_;  ///< without its pieces and sums, once they are on the device
  Arguments args_;
  DeviceArray<Piece> pieces_;
  DeviceArray<Sum> sums_;
  DeviceArray<float> rows_, cols_, kernel_;
};

}  // namespace gbcompress::cuda
