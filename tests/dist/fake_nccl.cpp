// A module without a GPU: "device memory" is host memory, and NCCL's part meets in shared memory of
// this machine. What GPUs and versions it has, the environment says: GBC_FAKE_GPUS (8),
// GBC_FAKE_LIBRARY (a version code, or a text why there is none), GBC_FAKE_HANGS (an operation's
// number, from which on nothing is done).
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/module.h"
#include "cuda/nccl_module.h"
#include "gbcompress/version.h"

namespace gbcompress::cuda {
namespace {

constexpr int kMaxRanks = 16;
constexpr std::int64_t kRoom = std::int64_t{8} << 20;  // bytes of one rank in one operation
constexpr std::int64_t kPiece = 4096;
constexpr int kHeader = 22809;

/// What the ranks share; fresh shared memory is zero.
struct Shared {
  std::atomic<int> arrived, round;
  std::int64_t offsets[kMaxRanks][kMaxRanks];  // where in a rank's room another's part begins
  alignas(64) char room[kMaxRanks][kRoom];
  /// What one rank sends to another, piece by piece; the number of bytes in it, 0: empty.
  std::atomic<std::int64_t> filled[kMaxRanks][kMaxRanks];
  alignas(64) char mail[kMaxRanks][kMaxRanks][kPiece];
};

/// Work that is done in order by a thread of the communicator.
struct Stream {
  std::atomic<std::int64_t> begun{0}, done{0};
};
struct Mark {
  Stream* stream;
  std::int64_t number;
};

class Comm {
 public:
  Comm(const char* name, int rank, int world) : name_(name), rank_(rank), world_(world) {
    const int file = ::shm_open(name, O_RDWR | O_CREAT, 0600);
    if (file >= 0 && ::ftruncate(file, sizeof(Shared)) == 0) {
      void* memory = ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
      if (memory != MAP_FAILED) shared_ = static_cast<Shared*>(memory);
    }
    if (file >= 0) ::close(file);
    thread_ = std::thread([this] { run(); });
    if (shared_)
      begin(nullptr, [this] {
        barrier();
        if (rank_ == 0) ::shm_unlink(name_.c_str());
        ready_ = true;
      });
  }
  ~Comm() {
    aborted_ = true;
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
    if (shared_) ::munmap(shared_, sizeof(Shared));
  }

  const char* busy(bool* answer) {
    *answer = !ready_;
    return shared_ ? nullptr : "no shared memory";
  }

  void begin(Stream* stream, std::function<void()> work) {
    if (stream) ++stream->begun;
    {
      const std::lock_guard lock(mutex_);
      queue_.push_back({stream, std::move(work)});
    }
    changed_.notify_all();
  }

  /// Gives `out` to all, then reads what others gave.
  template <typename Read>
  void share(const void* out, std::int64_t bytes, const Read& read) {
    if (bytes > 0) std::memcpy(shared_->room[rank_], out, static_cast<std::size_t>(bytes));
    barrier();
    if (!aborted_) read(*shared_);
    barrier();
  }

  void barrier() {
    const int round = shared_->round;
    if (++shared_->arrived == world_) {
      shared_->arrived = 0;
      ++shared_->round;
    }
    while (shared_->round == round && !aborted_) ::sched_yield();
  }

  void send(const char* data, std::int64_t bytes, int to) {
    auto& filled = shared_->filled[rank_][to];
    for (std::int64_t at = 0; at < bytes && !aborted_; at += kPiece) {
      while (filled != 0 && !aborted_) ::sched_yield();
      const std::int64_t piece = std::min(kPiece, bytes - at);
      std::memcpy(shared_->mail[rank_][to], data + at, static_cast<std::size_t>(piece));
      filled = piece;
    }
  }
  void receive(char* data, std::int64_t bytes, int from) {
    auto& filled = shared_->filled[from][rank_];
    for (std::int64_t at = 0; at < bytes && !aborted_;) {
      while (filled == 0 && !aborted_) ::sched_yield();
      const std::int64_t piece = filled;
      std::memcpy(data + at, shared_->mail[from][rank_], static_cast<std::size_t>(piece));
      at += piece;
      filled = 0;
    }
  }

  int rank() const { return rank_; }
  int world() const { return world_; }
  Shared& shared() { return *shared_; }

 private:
  struct Task {
    Stream* stream;
    std::function<void()> work;
  };

  void run() {
    const char* hangs = std::getenv("GBC_FAKE_HANGS");
    const std::int64_t last = hangs ? std::atoll(hangs) : -1;
    for (std::int64_t number = 0;; ++number) {
      Task task;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return stop_ || (!queue_.empty() && number != last); });
        if (stop_) return;
        task = std::move(queue_.front());
        queue_.pop_front();
      }
      task.work();
      if (task.stream && !aborted_) ++task.stream->done;
    }
  }

  std::string name_;
  int rank_, world_;
  Shared* shared_ = nullptr;
  std::atomic<bool> aborted_{false}, ready_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> queue_;
  bool stop_ = false;
  std::thread thread_;
};

Comm& of(void* comm) { return *static_cast<Comm*>(comm); }

const char* load(std::int32_t* runtime) {
  const char* said = std::getenv("GBC_FAKE_LIBRARY");
  *runtime = said ? std::atoi(said) : kHeader;
  return *runtime == 0 ? said : nullptr;
}
const char* new_id(void* id) {
  std::random_device device;
  std::string name = "/gbc-fake-nccl-";
  for (int i = 0; i < 16; ++i) name += "0123456789abcdef"[device() % 16];
  std::strcpy(static_cast<char*>(id), name.c_str());
  return nullptr;
}
const char* open(void** comm, const void* id, std::int32_t rank, std::int32_t world) {
  *comm = nullptr;
  if (world > kMaxRanks) return "too many ranks for a fake";
  *comm = new Comm(static_cast<const char*>(id), rank, world);
  return nullptr;
}
const char* busy(void* comm, bool* answer) { return of(comm).busy(answer); }

const char* all_reduce(void* comm, float* data, std::int64_t floats, void* stream) {
  if (4 * floats > kRoom) return "too much for a fake";
  of(comm).begin(static_cast<Stream*>(stream), [&c = of(comm), data, floats] {
    c.share(data, 4 * floats, [&](Shared& shared) {
      for (std::int64_t i = 0; i < floats; ++i) {
        data[i] = 0;
        for (int r = 0; r < c.world(); ++r)
          data[i] += reinterpret_cast<const float*>(shared.room[r])[i];
      }
    });
  });
  return nullptr;
}
const char* broadcast(void* comm, void* data, std::int64_t bytes, std::int32_t from, void* stream) {
  if (bytes > kRoom) return "too much for a fake";
  of(comm).begin(static_cast<Stream*>(stream), [&c = of(comm), data, bytes, from] {
    c.share(data, bytes, [&](Shared& shared) {
      std::memcpy(data, shared.room[from], static_cast<std::size_t>(bytes));
    });
  });
  return nullptr;
}
const char* all_gather(void* comm, const void* mine, void* all, std::int64_t bytes, void* stream) {
  if (bytes > kRoom) return "too much for a fake";
  of(comm).begin(static_cast<Stream*>(stream), [&c = of(comm), mine, all, bytes] {
    c.share(mine, bytes, [&](Shared& shared) {
      for (int r = 0; r < c.world(); ++r)
        std::memcpy(static_cast<char*>(all) + r * bytes, shared.room[r],
                    static_cast<std::size_t>(bytes));
    });
  });
  return nullptr;
}
const char* exchange(void* comm, const float* out, const std::int64_t* sent, float* in,
                     const std::int64_t* received, std::int32_t world, void* stream) {
  std::int64_t total = 0;
  Comm& c = of(comm);
  std::vector<std::int64_t> offsets, counts(received, received + world);
  for (std::int32_t r = 0; r < world; ++r) {
    offsets.push_back(total);
    total += sent[r];
  }
  if (4 * total > kRoom) return "too much for a fake";
  c.begin(static_cast<Stream*>(stream), [&c, out, in, total, offsets, counts, world] {
    std::copy(offsets.begin(), offsets.end(), c.shared().offsets[c.rank()]);
    c.share(out, 4 * total, [&](Shared& shared) {
      float* to = in;
      for (std::int32_t r = 0; r < world; ++r) {
        const auto* from = reinterpret_cast<const float*>(shared.room[r]);
        to = std::copy_n(from + shared.offsets[r][c.rank()], counts[static_cast<std::size_t>(r)],
                         to);
      }
    });
  });
  return nullptr;
}
const char* send(void* comm, const void* data, std::int64_t bytes, std::int32_t to, void* stream) {
  of(comm).begin(static_cast<Stream*>(stream), [&c = of(comm), data, bytes, to] {
    c.send(static_cast<const char*>(data), bytes, to);
  });
  return nullptr;
}
const char* receive(void* comm, void* data, std::int64_t bytes, std::int32_t from, void* stream) {
  of(comm).begin(static_cast<Stream*>(stream), [&c = of(comm), data, bytes, from] {
    c.receive(static_cast<char*>(data), bytes, from);
  });
  return nullptr;
}
void close(void* comm) { delete static_cast<Comm*>(comm); }

const char* new_stream(void** stream) {
  *stream = new Stream;
  return nullptr;
}
void free_stream(void* stream) { delete static_cast<Stream*>(stream); }
const char* mark(void** mark, void* stream) {
  auto* at = static_cast<Stream*>(stream);
  *mark = new Mark{at, at->begun};
  return nullptr;
}
const char* passed(void* mark, bool* answer) {
  const auto* at = static_cast<const Mark*>(mark);
  *answer = at->stream->done >= at->number;
  return nullptr;
}
void free_mark(void* mark) { delete static_cast<Mark*>(mark); }

const char* devices(std::int32_t* count, std::int32_t* driver) {
  const char* said = std::getenv("GBC_FAKE_GPUS");
  *count = said ? std::atoi(said) : 8;
  *driver = 13000;
  return *count < 0 ? "no NVIDIA driver is installed" : nullptr;
}
const char* facts(std::int32_t, DeviceFacts* facts) {
  std::strcpy(facts->name, "fake");
  facts->major = 9;
  return nullptr;
}
const char* use(std::int32_t, std::int32_t* before) {
  *before = 0;
  return nullptr;
}
const char* allocate(void** memory, std::int64_t bytes, void*) {
  *memory = std::malloc(static_cast<std::size_t>(bytes));
  if (*memory) std::memset(*memory, 0xff, static_cast<std::size_t>(bytes));
  return *memory ? nullptr : "out of memory";
}
const char* release(void* memory, void*) {
  std::free(memory);
  return nullptr;
}
const char* copy(void* to, const void* from, std::int64_t bytes, void*) {
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  return nullptr;
}
const char* finish(void*) { return nullptr; }
const char* on_device(const void*, bool* answer) {
  *answer = false;
  return nullptr;
}
const char* launch(Operation, const Arguments*, const Grid*, void*) {
  return "a fake computes nothing";
}

}  // namespace
}  // namespace gbcompress::cuda

extern "C" const gbcompress::cuda::Module* gbcompress_cuda_module() {
  using namespace gbcompress::cuda;
  static constexpr Module module = {kModuleAbi,
                                    sizeof(Module),
                                    GBC_VERSION_STRING,
                                    "nothing",
                                    0,
                                    devices,
                                    facts,
                                    use,
                                    allocate,
                                    release,
                                    copy,
                                    finish,
                                    on_device,
                                    launch};
  return &module;
}
extern "C" const gbcompress::cuda::NcclModule* gbcompress_nccl_module() {
  using namespace gbcompress::cuda;
  static constexpr NcclModule module = {kNcclAbi,
                                        sizeof(NcclModule),
                                        GBC_VERSION_STRING,
                                        kHeader,
                                        load,
                                        new_id,
                                        open,
                                        busy,
                                        all_reduce,
                                        broadcast,
                                        all_gather,
                                        exchange,
                                        close,
                                        close,
                                        new_stream,
                                        free_stream,
                                        mark,
                                        passed,
                                        free_mark,
                                        send,
                                        receive};
  return &module;
}
