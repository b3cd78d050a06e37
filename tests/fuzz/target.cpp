#include "fuzz/target.h"

#include <sys/types.h>
#include <time.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

#include "gbcompress/error.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define GBC_COUNTS_MEMORY 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define GBC_COUNTS_MEMORY 1
#endif

#ifdef GBC_COUNTS_MEMORY
// <sanitizer/allocator_interface.h>, which GCC and Clang install in different places.
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void*,
                                                                           std::size_t),
                                                         void (*on_free)(const volatile void*));
extern "C" std::size_t __sanitizer_get_allocated_size(const volatile void*);
#endif

namespace gbcompress::fuzz {
namespace {

[[maybe_unused]] constexpr std::size_t kBeyond = std::size_t{64} << 20;
constexpr double kSeconds = 1.0;

[[noreturn]] void finding(const Target& target, const char* what) {
  std::fprintf(stderr, "gbc_fuzz: %.*s: %s\n", static_cast<int>(target.name.size()),
               target.name.data(), what);
  std::abort();
}

double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::atomic<const Target*> running{nullptr};
std::atomic<std::int64_t> live{0};

#ifdef GBC_COUNTS_MEMORY
void on_malloc(const volatile void*, std::size_t size) {
  const Target* target = running.load(std::memory_order_relaxed);
  if (!target) return;
  const auto limit = static_cast<std::int64_t>(target->declared_bytes + kBeyond);
  if (live.fetch_add(static_cast<std::int64_t>(size)) + static_cast<std::int64_t>(size) <= limit)
    return;
  running = nullptr;
  finding(*target, "holds more than 64 MiB beyond the declared limits");
}
void on_free(const volatile void* memory) {
  if (memory && running.load(std::memory_order_relaxed))
    live.fetch_sub(static_cast<std::int64_t>(__sanitizer_get_allocated_size(memory)));
}
[[maybe_unused]] const int installed =
    __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
#endif

const std::vector<Target>& all() {
  static const std::vector<Target> table = [] {
    std::vector<Target> every;
    for (const auto* some : {&artifact_targets, &delta_targets, &tensor_file_targets, &data_targets,
                             &checkpoint_targets, &text_targets, &process_targets})
      every.insert(every.end(), some->begin(), some->end());
    return every;
  }();
  return table;
}

}  // namespace

std::span<const Target> targets() { return all(); }

const Target& find_target(std::string_view name) {
  for (const Target& target : all())
    if (target.name == name) return target;
  throw std::invalid_argument("no fuzz target is named " + std::string(name));
}

void run_guarded(const Target& target, Input input) {
  const double start = processor_seconds();
  live = 0;
  running = &target;
  try {
    target.run(input);
  } catch (const Error&) {  // refused, as it should be
  }
  running = nullptr;
  if (processor_seconds() - start > kSeconds) finding(target, "takes more than a second");
}

void write_seeds(const Target& target, const std::string& folder) {
  std::filesystem::create_directories(folder);
  std::size_t number = 0;
  for (const Bytes& seed : target.seeds()) {
    std::ofstream out(folder + "/seed-" + std::to_string(number++), std::ios::binary);
    out.write(reinterpret_cast<const char*>(seed.data()),
              static_cast<std::streamsize>(seed.size()));
    if (!out.flush()) throw std::runtime_error("cannot write into " + folder);
  }
}

}  // namespace gbcompress::fuzz
