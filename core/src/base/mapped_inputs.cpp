#include "base/mapped_inputs.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <exception>
#include <mutex>
#include <string>
#include <utility>

#include "gbcompress/error.h"

namespace gbcompress {

/// The handler walks a list of these without a lock, so they are used again and never freed.
struct MappedInput {
  std::atomic<std::uintptr_t> begin{0}, end{0};
  std::atomic<bool> lost{false};
  std::string path;
  dev_t device = 0;
  ino_t inode = 0;
  bool told = false;
  MappedInput* next = nullptr;
};

namespace {

std::atomic<MappedInput*> inputs{nullptr};
std::mutex mutex;            // of everything but what the handler reads
std::string untold;          // a file that lost bytes and is mapped no longer; "": none
struct sigaction before {};  // of our first installation
struct sigaction later {};   // of a program that took the signal over since
std::atomic<bool> has_later{false};
std::uintptr_t page_bytes = 4096;
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

/// [async-signal-safe] Zeros from the page of `address` to the end: what a file loses is its end.
bool replace_pages(std::uintptr_t address) noexcept {
  for (MappedInput* input = inputs.load(); input; input = input->next) {
    const std::uintptr_t begin = input->begin.load(), end = input->end.load();
    if (address < begin || address >= end) continue;
    const std::uintptr_t page = address - address % page_bytes;
    input->lost.store(true);
    return ::mmap(reinterpret_cast<void*>(page), end - page, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
  }
  return false;
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (replace_pages(reinterpret_cast<std::uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  // Whoever installed a handler after ours may call ours from it: it sees the fault itself, and
  // ours then has nobody but the first one to turn to.
  if (has_later.exchange(false))
    ::sigaction(signal, &later, nullptr);  // the read is tried again
  else if (before.sa_flags & SA_SIGINFO)
    before.sa_sigaction(signal, info, context);
  else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
    before.sa_handler(signal);
  else
    ::sigaction(signal, &before, nullptr);  // the read is tried again, and ends the process
}

/// Also where another part of the program took the signal over meanwhile, as Python's faulthandler
/// does. Needs the mutex.
void install() {
  static const bool first = [] {
    page_bytes = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
    return ::sigaction(SIGBUS, nullptr, &before) == 0;
  }();
  struct sigaction now {};
  if (!first || ::sigaction(SIGBUS, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_bus_error) return;
  static bool installed = false;
  if (std::exchange(installed, true)) {
    has_later.store(false);
    later = now;
    has_later.store(true);
  }
  struct sigaction action {};
  action.sa_sigaction = on_bus_error;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  ::sigaction(SIGBUS, &action, nullptr);
}

/// Whether bytes are gone. A file that ends within its last page raises no signal, so its size is
/// read too; another file under the same name does no harm.
bool lost_bytes(const MappedInput& input) noexcept {
  if (input.lost.load()) return true;
  struct stat now {};
  return ::stat(input.path.c_str(), &now) == 0 && now.st_dev == input.device &&
         now.st_ino == input.inode &&
         static_cast<std::uintptr_t>(now.st_size) < input.end.load() - input.begin.load();
}

}  // namespace

MappedInput* watch_mapping(std::byte* data, std::size_t size, const std::filesystem::path& path,
                           const struct stat& status) {
  std::error_code ignored;  // the working directory may change while the file is mapped
  std::string name = std::filesystem::absolute(path, ignored).string();
  const std::lock_guard lock(mutex);
  install();
  MappedInput* input = nullptr;
  bool alone = true;
  for (MappedInput* other = inputs.load(); other; other = other->next) {
    if (other->begin.load() == 0)
      input = other;
    else
      alone = false;
  }
  // Where nothing is mapped, nothing is being done, and what follows has nothing of that file.
  if (alone) untold.clear();
  if (!input) {
    input = new MappedInput;
    input->next = inputs.load();
    inputs.store(input);
  }
  input->path = std::move(name);
  input->device = status.st_dev;
  input->inode = status.st_ino;
  input->lost.store(false);
  input->told = false;
  input->end.store(reinterpret_cast<std::uintptr_t>(data) + size);
  input->begin.store(reinterpret_cast<std::uintptr_t>(data));
  return input;
}

void forget_mapping(MappedInput* input) noexcept {
  if (!input) return;
  const std::lock_guard lock(mutex);
  // Where an error ends what was being done, it is what is told.
  if (!input->told && std::uncaught_exceptions() == 0 && lost_bytes(*input))
    untold.swap(input->path);
  input->end.store(0);
  input->begin.store(0);
}

void release_pages(std::span<const std::byte> bytes) noexcept {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::lock_guard lock(mutex);
  for (const MappedInput* input = inputs.load(); input; input = input->next) {
    const std::uintptr_t begin = input->begin.load();
    if (begin == 0 || first < begin || first + bytes.size() > input->end.load()) continue;
    const std::size_t skipped = (page_bytes - first % page_bytes) % page_bytes;
    if (bytes.size() < skipped + page_bytes) return;
    const std::size_t whole = (bytes.size() - skipped) / page_bytes * page_bytes;
    (void)::madvise(const_cast<std::byte*>(bytes.data()) + skipped, whole, MADV_DONTNEED);
    return;
  }
}

namespace {

[[noreturn]] void fail_lost(const std::string& path) {
  throw Error(Errc::kFailure,
              printable(path) +
                  " became shorter, or its disk failed, while it was read; "
                  "no file was written from what is missing; try again with a whole file");
}

}  // namespace

void check_mapped(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data());
  std::string path;
  {
    const std::lock_guard lock(mutex);
    for (MappedInput* input = inputs.load(); input; input = input->next) {
      if (input->begin.load() == 0 || first < input->begin.load() || first >= input->end.load())
        continue;
      if (!lost_bytes(*input)) return;
      path = input->path;
      input->told = true;
      break;
    }
  }
  if (!path.empty()) fail_lost(path);
}

void check_mapped_inputs() {
  const std::lock_guard lock(mutex);
  std::string path;
  path.swap(untold);
  for (MappedInput* input = inputs.load(); input && path.empty(); input = input->next) {
    if (input->begin.load() == 0 || !lost_bytes(*input)) continue;
    path = input->path;
    input->told = true;
  }
  if (!path.empty()) fail_lost(path);
}

}  // namespace gbcompress
