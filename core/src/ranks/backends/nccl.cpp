// Collectives through one GPU a rank. What is sent is copied first, from the host or within the
// GPU, on a
// stream of its own so that a copy never waits for a collective; what arrives is copied back in
// wait(). Nothing blocks inside NCCL or CUDA: everything is polled until it is done, so that
// abort() and the time limit end it.
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/zeros.h>
#include <poll.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <stdexcept>
#include <utility>

#include "ranks/backends/nccl_place.h"
#include "ranks/backends/tcp_store.h"
#include "ranks/collectives/transport.h"
#include "ranks/liveness/seconds.h"

namespace gbcompress {
namespace {

using Clock = std::chrono::steady_clock;

void check(const char* error) {
  if (error) throw std::runtime_error(std::string("NCCL: ") + error);
}

/// Asks again and again: at once at first, then less often.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds limit) : limit_(limit), end_(Clock::now() + limit) {}
  void pass() {
    if (++asked_ < kEager) {
      ::sched_yield();
      return;
    }
    timespec moment{0, 50'000};
    ::ppoll(nullptr, 0, &moment, nullptr);
    if (Clock::now() > end_)
      throw std::runtime_error("no progress on the GPU for " + seconds_text(limit_));
  }

 private:
  static constexpr int kEager = 2000;
  std::chrono::milliseconds limit_;
  Clock::time_point end_;
  int asked_ = 0;
};

class NcclTransport final : public Transport {
 public:
  NcclTransport(const NcclPlace& place, const std::string& id, int rank, int world,
                std::chrono::milliseconds timeout, const std::function<void()>& look)
      : gpu_(*place.gpu),
        nccl_(*place.nccl),
        device_(place.device),
        world_(world),
        timeout_(timeout) {
    use();
    check(nccl_.new_stream(&work_));
    check(nccl_.new_stream(&copies_));
    check(nccl_.open(&comm_, id.data(), rank, world));
    settle(look);
  }

  ~NcclTransport() override {
    std::int32_t ignored = 0;
    gpu_.use(device_, &ignored);
    if (comm_) aborted_ || under_way_ > 0 ? nccl_.abort(comm_) : nccl_.close(comm_);
    // Streams with work that never ends are left to the end of the process.
    if (under_way_ > 0) return;
    if (work_) nccl_.free_stream(work_);
    if (copies_) nccl_.free_stream(copies_);
  }

  /// Those of its own GPU are copied within it.
  bool reads(at::Device device) const override {
    return device.is_cpu() || (device.is_cuda() && device.index() == device_);
  }

  TransportWorkPtr all_reduce(at::Tensor tensor) override {
    return begin([&] {
      Memory memory(*this, tensor);
      check(nccl_.all_reduce(comm_, static_cast<float*>(memory.data()), tensor.numel(), work_));
      return begun(std::move(memory), {}, tensor);
    });
  }

  TransportWorkPtr broadcast(at::Tensor tensor, int from) override {
    return begin([&] {
      Memory memory(*this, tensor);
      check(nccl_.broadcast(comm_, memory.data(), static_cast<std::int64_t>(tensor.nbytes()), from,
                            work_));
      return begun(std::move(memory), {}, tensor);
    });
  }

  TransportWorkPtr exchange(at::Tensor in, at::Tensor out, std::vector<std::int64_t> in_counts,
                            std::vector<std::int64_t> out_counts) override {
    return begin([&] {
      Memory sent(*this, in), received(*this, static_cast<std::int64_t>(out.nbytes()));
      check(nccl_.exchange(comm_, static_cast<const float*>(sent.data()), in_counts.data(),
                           static_cast<float*>(received.data()), out_counts.data(), world_, work_));
      return begun(std::move(received), std::move(sent), out);
    });
  }

  TransportWorkPtr all_gather(at::Tensor mine, at::Tensor out) override {
    return begin([&] {
      Memory sent(*this, mine), received(*this, static_cast<std::int64_t>(out.nbytes()));
      check(nccl_.all_gather(comm_, sent.data(), received.data(),
                             static_cast<std::int64_t>(mine.nbytes()), work_));
      return begun(std::move(received), std::move(sent), out);
    });
  }

  TransportWorkPtr send(at::Tensor tensor, int to) override {
    return begin([&] {
      Memory sent(*this, tensor);
      check(nccl_.send(comm_, sent.data(), static_cast<std::int64_t>(tensor.nbytes()), to, work_));
      return begun({}, std::move(sent), {});
    });
  }

  TransportWorkPtr receive(at::Tensor into, int from) override {
    return begin([&] {
      const auto bytes = static_cast<std::int64_t>(into.nbytes());
      Memory received(*this, bytes);
      check(nccl_.receive(comm_, received.data(), bytes, from, work_));
      return begun(std::move(received), {}, into);
    });
  }

  TransportWorkPtr barrier() override { return all_reduce(at::zeros({1}, at::kFloat)); }

  void abort() noexcept override { aborted_ = true; }

 private:
  /// Memory of the GPU.
  class Memory {
   public:
    Memory() = default;
    Memory(NcclTransport& owner, std::int64_t bytes) : owner_(&owner) {
      check(owner.gpu_.allocate(&data_, std::max<std::int64_t>(bytes, 1), owner.copies_));
      check(owner.gpu_.finish(owner.copies_));
    }
    Memory(NcclTransport& owner, const at::Tensor& tensor)
        : Memory(owner, static_cast<std::int64_t>(tensor.nbytes())) {
      if (tensor.nbytes() == 0) return;
      // LibTorch computes on a stream of its own.
      if (tensor.is_cuda()) at::detail::getCUDAHooks().deviceSynchronize(tensor.device().index());
      check(owner.gpu_.copy(data_, tensor.const_data_ptr(),
                            static_cast<std::int64_t>(tensor.nbytes()), owner.copies_));
      check(owner.gpu_.finish(owner.copies_));
    }
    Memory(Memory&& other) noexcept
        : owner_(other.owner_), data_(std::exchange(other.data_, nullptr)) {}
    Memory& operator=(Memory&&) = delete;
    ~Memory() {
      if (data_) owner_->gpu_.release(data_, owner_->copies_);
    }
    void* data() const noexcept { return data_; }
    /// NCCL may still write to it: it stays until the process ends.
    void leave() noexcept { data_ = nullptr; }

   private:
    NcclTransport* owner_ = nullptr;
    void* data_ = nullptr;
  };

  class Work final : public TransportWork {
   public:
    Work(NcclTransport& owner, Memory result, Memory source, at::Tensor target)
        : owner_(owner),
          result_(std::move(result)),
          source_(std::move(source)),
          target_(std::move(target)) {
      ++owner_.under_way_;
    }
    ~Work() override {
      if (!done_) {
        result_.leave();
        source_.leave();
      } else {
        --owner_.under_way_;
      }
      if (mark_ && done_) owner_.nccl_.free_mark(mark_);
    }
    void begin() {
      owner_.settle([] {});
      check(owner_.nccl_.mark(&mark_, owner_.work_));
    }
    void wait() override {
      owner_.use();
      Patience patience(owner_.timeout_);
      for (bool passed = false, ignored = false;;) {
        check(owner_.nccl_.passed(mark_, &passed));
        if (passed) break;
        check(owner_.nccl_.busy(owner_.comm_, &ignored));
        owner_.look();
        patience.pass();
      }
      done_ = true;
      if (!target_.defined() || target_.nbytes() == 0) return;
      check(owner_.gpu_.copy(target_.mutable_data_ptr(), result_.data(),
                             static_cast<std::int64_t>(target_.nbytes()), owner_.copies_));
      check(owner_.gpu_.finish(owner_.copies_));
    }

   private:
    NcclTransport& owner_;
    Memory result_, source_;
    at::Tensor target_;
    void* mark_ = nullptr;
    bool done_ = false;
  };

  /// What failed before it was under way, told by wait() like all the rest.
  class Failed final : public TransportWork {
   public:
    explicit Failed(std::exception_ptr error) : error_(std::move(error)) {}
    void wait() override { std::rethrow_exception(error_); }

   private:
    std::exception_ptr error_;
  };

  template <typename Begin>
  TransportWorkPtr begin(const Begin& begin) {
    try {
      use();
      return begin();
    } catch (const std::exception&) {
      return std::make_unique<Failed>(std::current_exception());
    }
  }

  TransportWorkPtr begun(Memory result, Memory source, at::Tensor target) {
    auto work =
        std::make_unique<Work>(*this, std::move(result), std::move(source), std::move(target));
    work->begin();
    return work;
  }

  /// The thread's current device from here on.
  void use() const {
    std::int32_t ignored = 0;
    check(gpu_.use(device_, &ignored));
  }

  void look() const {
    if (aborted_) throw std::runtime_error("it was given up, because a rank failed");
  }

  /// Until the communicator has processed its calls.
  void settle(const std::function<void()>& also) {
    Patience patience(timeout_);
    for (bool busy = true;;) {
      check(nccl_.busy(comm_, &busy));
      if (!busy) return;
      look();
      also();
      patience.pass();
    }
  }

  const cuda::Module& gpu_;
  const cuda::NcclModule& nccl_;
  int device_, world_;
  std::chrono::milliseconds timeout_;
  void* work_ = nullptr;
  void* copies_ = nullptr;
  void* comm_ = nullptr;
  std::int64_t under_way_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace

std::unique_ptr<Transport> make_nccl(TcpKeyStore& store, const std::string& prefix, int rank,
                                     int world, const NcclPlace& place,
                                     std::chrono::milliseconds timeout,
                                     const std::function<void()>& look) {
  const std::string key = prefix + "id";
  std::string id(cuda::kNcclIdBytes, '\0');
  if (rank == 0) {
    check(place.nccl->new_id(id.data()));
    store.set(key, id);
  } else {
    for (;;) {
      if (const auto told = store.get(key)) {
        id = *told;
        break;
      }
      look();
      ::poll(nullptr, 0, 10);
    }
    if (id.size() != cuda::kNcclIdBytes) throw std::runtime_error("NCCL's id is malformed");
  }
  return std::make_unique<NcclTransport>(place, id, rank, world, timeout, look);
}

}  // namespace gbcompress
