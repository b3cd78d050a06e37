#include "cuda/host_module.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "cuda/blocks.h"
#include "gbcompress/version.h"

namespace gbcompress::cuda {
namespace {

/// Threads that run one after another; see group.h.
class HostGroup {
 public:
  explicit HostGroup(std::span<const int> order) : order_(order) {}
  int size() const { return static_cast<int>(order_.size()); }
  template <typename Work>
  void each(const Work& work) const {
    for (const int thread : order_) work(thread);
  }
  template <typename T>
  class Local {
   public:
    explicit Local(const HostGroup& group) : values_(static_cast<std::size_t>(group.size())) {}
    T& operator[](int thread) { return values_[static_cast<std::size_t>(thread)]; }

   private:
    std::vector<T> values_;
  };

 private:
  std::span<const int> order_;
};

struct Free {
  void operator()(char* memory) const { std::free(memory); }
};
struct Block {
  std::unique_ptr<char, Free> memory;
  std::int64_t bytes;
};

struct State {
  std::map<const char*, Block> blocks;
  ThreadOrder order = ThreadOrder::kForward;
  std::int64_t launches = 0, fail = 0;
  std::int32_t devices = 1, major = 9, current = 0;
  const char* error = nullptr;
};
State& state() {
  static State one;
  return one;
}

/// What the call that fail_call() chose answers.
const char* failure() {
  State& s = state();
  return s.fail > 0 && --s.fail == 0 ? "a failure that was asked for" : nullptr;
}

bool inside(const void* memory) {
  const auto* at = static_cast<const char*>(memory);
  auto next = state().blocks.upper_bound(at);
  return next != state().blocks.begin() && at < (--next)->first + next->second.bytes;
}

/// NaN in every float.
Block poisoned(std::int64_t bytes) {
  const auto rounded = static_cast<std::size_t>((bytes + 15) / 16 * 16);
  Block block{std::unique_ptr<char, Free>(static_cast<char*>(std::aligned_alloc(16, rounded))),
              bytes};
  std::memset(block.memory.get(), 0xff, rounded);
  return block;
}

const char* devices(std::int32_t* count, std::int32_t* driver) {
  *count = state().devices;
  *driver = 13000;
  return state().error;
}
const char* facts(std::int32_t, DeviceFacts* facts) {
  std::strcpy(facts->name, "host");
  facts->major = state().major;
  return nullptr;
}
const char* use(std::int32_t device, std::int32_t* before) {
  *before = std::exchange(state().current, device);
  return nullptr;
}
const char* allocate(void** memory, std::int64_t bytes, void*) {
  if (const char* error = failure()) return error;
  Block block = poisoned(bytes);
  *memory = block.memory.get();
  state().blocks.emplace(block.memory.get(), std::move(block));
  return nullptr;
}
const char* release(void* memory, void*) {
  return state().blocks.erase(static_cast<char*>(memory)) ? nullptr : "not allocated";
}
const char* copy(void* to, const void* from, std::int64_t bytes, void*) {
  if (const char* error = failure()) return error;
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
  return nullptr;
}
const char* finish(void*) { return failure(); }
const char* on_device(const void* memory, bool* answer) {
  *answer = inside(memory);
  return nullptr;
}

std::vector<int> thread_order(int threads) {
  std::vector<int> order(static_cast<std::size_t>(threads));
  std::iota(order.begin(), order.end(), 0);
  if (state().order == ThreadOrder::kBackward) std::reverse(order.begin(), order.end());
  if (state().order == ThreadOrder::kShuffled)
    std::shuffle(order.begin(), order.end(), std::mt19937(7));
  return order;
}

template <Operation kOperation>
void run(const Arguments& args, const Grid& grid) {
  const std::vector<int> order = thread_order(grid.threads);
  for (std::int64_t n = 0; n < grid.blocks * grid.layers; ++n) {
    const Block shared = poisoned(std::max<std::int64_t>(grid.shared_bytes, 16));
    run_block<kOperation>(HostGroup(order), args, n % grid.blocks, grid.blocks,
                          static_cast<int>(n / grid.blocks),
                          reinterpret_cast<float*>(shared.memory.get()));
  }
}

const char* launch(Operation operation, const Arguments* args, const Grid* grid, void*) {
  if (const char* error = failure()) return error;
  ++state().launches;
  const int most = operation == Operation::kForward       ? kForwardThreads
                   : operation == Operation::kBackward    ? kBackwardThreads
                   : operation == Operation::kAddPartials ? kSumThreads
                                                          : kDeepThreads;
  if (grid->threads < 1 || grid->threads > most || grid->threads % 32 != 0 || grid->blocks < 1 ||
      grid->blocks > 0x7fffffff || grid->layers < 1 || grid->layers > 65535 ||
      grid->shared_bytes > 99 * 1024)
    return "invalid configuration argument";
  switch (operation) {
    case Operation::kForward:
      run<Operation::kForward>(*args, *grid);
      break;
    case Operation::kBackward:
      run<Operation::kBackward>(*args, *grid);
      break;
    case Operation::kForwardDeep:
      run<Operation::kForwardDeep>(*args, *grid);
      break;
    case Operation::kBackwardDeep:
      run<Operation::kBackwardDeep>(*args, *grid);
      break;
    case Operation::kAddPartials:
      run<Operation::kAddPartials>(*args, *grid);
      break;
  }
  return nullptr;
}

}  // namespace

const Module& host_module() {
  static constexpr Module module = {.abi = kModuleAbi,
                                    .struct_size = sizeof(Module),
                                    .version = GBC_VERSION_STRING,
                                    .built_with = "the host",
                                    .runtime = 0,
                                    .devices = devices,
                                    .facts = facts,
                                    .use = use,
                                    .allocate = allocate,
                                    .release = release,
                                    .copy = copy,
                                    .finish = finish,
                                    .on_device = on_device,
                                    .launch = launch};
  return module;
}

void set_thread_order(ThreadOrder order) { state().order = order; }
std::int64_t host_module_allocations() { return static_cast<std::int64_t>(state().blocks.size()); }
std::int64_t host_module_launches() { return state().launches; }
void set_host_devices(std::int32_t count, std::int32_t major, const char* error) {
  state().devices = count;
  state().major = major;
  state().error = error;
}
void fail_call(std::int64_t n) { state().fail = n; }

}  // namespace gbcompress::cuda
