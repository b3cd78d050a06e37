#pragma once
/// The ranks of one job: collectives, agreement, and failing together. LibTorch's class is only
/// named: whoever calls a collective includes it.

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gbcompress/fixed_sum.h"
#include "gbcompress/group_options.h"
#include "gbcompress/launch.h"
#include "gbcompress/traffic.h"
#include "gbcompress/version.h"

namespace GBC_API at {
class Tensor;
}

namespace GBC_API gbcompress {

// A group is opened from a Launch and lives as long as the work. A world of
// 1 needs no store and no network: every collective is then a no-op.
//
// Whatever ends one rank before finish() (killed, an exception, an early exit, a stop signal, a
// lost machine) ends all: the next or the blocked collective of every other rank throws
// Error(kFailure, "rank 2 failed first: ITS CAUSE"). A rank whose main thread does not get there
// within half a second is ended with status 1 after printing the same sentence; it may be
// computing, and Gloo has no other way of giving up. docs/explanation/ranks.md has the whole story.

struct GroupState;

/// A collective or a transfer under way. The tensors it was given must not be touched until wait()
/// returns.
class [[nodiscard]] Pending {
 public:
  Pending();  ///< one that is complete
  ~Pending();
  Pending(Pending&&) noexcept;
  Pending& operator=(Pending&&) noexcept;
  /// Returns when the result is there. Every Pending must be waited for once, in any order; later
  /// calls return at once.
  /// @throws Error(kFailure) naming the first failed rank
  void wait();

 private:
  friend class Group;
  struct Impl;
  explicit Pending(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Something all ranks must have in common.
struct Fact {
  std::string name;   ///< "the binary", "plugin linear", "the settings"
  std::string value;  ///< text or a digest; at most 1 MiB
  /// What to do where it differs; empty: to start all ranks with the same program and settings.
  std::string remedy = {};
};

/// Tensors are contiguous. Those of a device travel as copies on the host, and with
/// RankBackend::kNccl those of the rank's own GPU within it; sums in pieces and fixed sums take
/// tensors on the CPU alone. Collectives of one group are called by one thread.
/// "[collective]" below: every rank, in the same order, with the same sizes.
/// All throw Error(kFailure) naming the first failed rank, Error(kUsage) for a wrong rank, a tensor
/// of another device, type or layout.
class Group {
 public:
  /// Meets the other ranks. In a world above 1, SIGPIPE is ignored from then on where it had its
  /// default action. [collective]
  /// @throws Error(kFailure) within the start's timeout (plus 2 s): no response from the master,
  /// its port
  ///         taken, two processes with one rank, ranks that did not come (named), ranks that were
  ///         told different worlds; Error(kUsage): several machines without `listen`, an option out
  ///         of range; also NCCL without its module, without its library or with an older one,
  ///         without a GPU, with fewer GPUs than ranks on this machine;
  ///         Error(kInterrupted)
  static std::unique_ptr<Group> open(const Launch& launch, const GroupOptions& options = {});
  /// Without finish() before it, the other ranks fail.
  ~Group();
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  int rank() const noexcept;
  int world() const noexcept;

  /// Every rank's tensor becomes the sum over all ranks. float32. The bits are the same on every
  /// rank but depend on the world; all_reduce(FixedSum) gives bits that do not. [collective]
  Pending all_reduce(at::Tensor tensor);
  /// Every rank ends up with the sum of one piece: `into` on rank r becomes the sum over all ranks
  /// of elements [pieces[0] + ... + pieces[r-1], ... + pieces[r]) of `tensor`. Summed in rank
  /// order.
  /// @param tensor  float32, [sum of pieces]; unchanged
  /// @param pieces  elements of each rank, by rank; 0 is allowed
  /// @param into  float32, [pieces[rank()]]; may be that part of `tensor` itself
  /// [collective]
  Pending reduce_scatter(const at::Tensor& tensor, std::span<const std::int64_t> pieces,
                         at::Tensor into);
  /// Every rank's tensor becomes that of `from`. Any element type. [collective]
  Pending broadcast(at::Tensor tensor, int from);
  /// The reverse of reduce_scatter, in place: rank r has filled in its piece of `tensor`, and all
  /// ranks get all pieces. Any element type. [collective]
  Pending all_gather(at::Tensor tensor, std::span<const std::int64_t> pieces);
  /// From this rank to one other, which calls receive(). Any element type. Only these two ranks
  /// call, each the same number of times for the other; transfers from one rank to another keep
  /// their order. With RankBackend::kNccl, ranks begin their transfers and collectives in one
  /// order.
  /// @param to  another rank
  /// @throws Error(kUsage) also for this rank itself
  Pending send(const at::Tensor& tensor, int to);
  /// @param into    as many bytes as are sent
  /// @param from  another rank
  Pending receive(at::Tensor into, int from);
  /// What every rank said, by rank; sizes may differ. At most 16 MiB each. [collective]
  std::vector<std::string> all_gather(std::string_view mine);
  /// Sums over all shards of all ranks, with bits that do not depend on the world.
  /// @param sum  complete; its ranges are shards_of(rank, world, shards)
  /// @param into  float32, [sum.elements()]
  /// [collective]
  void all_reduce(const FixedSum& sum, int shards, at::Tensor into);
  void barrier();       ///< [collective]
  bool all(bool mine);  ///< whether it is true on every rank [collective]
  bool any(bool mine);  ///< whether it is true on some rank [collective]

  /// For one thread in the background, beside the collectives of the main one: a function that
  /// returns, on every rank, whether all ranks passed true; also a barrier. It goes through the
  /// store, so it is slow (some milliseconds) and independent of Gloo. Its calls are [collective]
  /// among the background threads; it throws Error(kFailure) once a rank has failed.
  /// @param name  different for every such function of a group
  std::function<bool(bool)> background_agreement(std::string name);

  /// All ranks compare. The error is the same on every rank and names the fact, two ranks that
  /// differ and what they have. [collective]
  /// @throws Error(kUsage)
  void agree(std::span<const Fact> facts);
  void agree(std::string name, std::string value);

  /// @throws Error(kFailure) once another rank has failed; for long work without collectives.
  /// [local]
  void check();
  /// Tells the others that this rank fails, and why, before its exception ends it. [local]
  void fail(std::string_view cause) noexcept;
  /// The orderly end: returns when every rank is here. After it, no collective may follow. Has no
  /// time limit while all ranks run: rank 0 may have a file to write first. [collective]
  void finish();

  /// Sent by this rank so far. [local]
  const Traffic& traffic() const noexcept;

 private:
  explicit Group(std::shared_ptr<GroupState> state);
  std::shared_ptr<GroupState> state_;
};

/// Every rank's tensors become their means over all ranks, in place: gradients, before each rank
/// makes the same step. Small tensors travel together. Any floating type and layout; sums are
/// float32. [collective]
/// @throws Error(kUsage) for a tensor that is undefined, not floating-point or on another device
/// than the first
void average(Group& group, std::vector<at::Tensor> tensors);

/// Runs a rank's work: what it throws is reported to the other ranks, then rethrown; after it,
/// finish().
template <typename Work>
void run_together(Group& group, Work&& work) {
  try {
    work();
  } catch (const std::exception& error) {
    group.fail(error.what());
    throw;
  } catch (...) {
    group.fail("an unknown exception");
    throw;
  }
  group.finish();
}

}  // namespace gbcompress
