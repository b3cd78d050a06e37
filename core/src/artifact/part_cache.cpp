#include "artifact/part_cache.h"

#include <algorithm>
#include <csignal>
#include <utility>

namespace gbcompress {
namespace {

/// Of parts that wait to be made ahead: more were requested by readers that went elsewhere since.
constexpr std::size_t kMostQueued = 1024;

/// Signals belong to the threads of the program.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    // Of a mapped file that became shorter (base/mapped_inputs.h), in the thread that reads.
    sigdelset(&all, SIGBUS);
    ::pthread_sigmask(SIG_BLOCK, &all, &before_);
  }
  ~BlockedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace

PartCache::PartCache(std::int64_t most, int threads) : most_(most) {
  const BlockedSignals blocked;
  for (int i = 0; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

PartCache::~PartCache() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
  }
  queued_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

std::int64_t PartCache::held() const {
  const std::lock_guard lock(mutex_);
  return held_;
}

std::int64_t PartCache::made() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

/// Parts in the making stay: threads wait for them.
void PartCache::make_room() {
  for (auto key = used_.end(); held_ > most_ && key != used_.begin();) {
    const auto entry = entries_.find(*--key);
    if (!entry->second->ready) continue;
    held_ -= entry->second->bytes;
    key = used_.erase(key);
    entries_.erase(entry);
  }
}

PartCache::CachedPartPtr PartCache::make(std::unique_lock<std::mutex>& lock, const Part& part) {
  const auto entry = std::make_shared<CachedPart>();
  entry->bytes = part.bytes;
  used_.push_front(part.key);
  entry->used = used_.begin();
  entries_[part.key] = entry;
  held_ += part.bytes;
  make_room();
  lock.unlock();
  HeldBytes held;
  std::exception_ptr error;
  try {
    held = part.make();
  } catch (...) {
    error = std::current_exception();
  }
  lock.lock();
  made_ += part.bytes;
  entry->held = std::move(held);
  entry->error = error;
  entry->ready = true;
  if (error) {
    held_ -= entry->bytes;
    used_.erase(entry->used);
    entries_.erase(part.key);
  }
  changed_.notify_all();
  return entry;
}

HeldBytes PartCache::get(const Part& part) {
  std::unique_lock lock(mutex_);
  CachedPartPtr entry;
  if (const auto found = entries_.find(part.key); found == entries_.end()) {
    entry = make(lock, part);
  } else {
    entry = found->second;
    used_.splice(used_.begin(), used_, entry->used);
    changed_.wait(lock, [&] { return entry->ready; });
  }
  if (entry->error) std::rethrow_exception(entry->error);
  return entry->held;
}

void PartCache::ahead(Part part) {
  const std::lock_guard lock(mutex_);
  const auto same = [&](const Part& each) { return each.key == part.key; };
  if (workers_.empty() || entries_.contains(part.key) || std::ranges::any_of(queue_, same)) return;
  if (queue_.size() == kMostQueued) queue_.pop_front();
  queue_.push_back(std::move(part));
  queued_.notify_one();
}

void PartCache::drop(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(key);
  if (found == entries_.end() || !found->second->ready) return;
  held_ -= found->second->bytes;
  used_.erase(found->second->used);
  entries_.erase(found);
}

void PartCache::forget_ahead(std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  std::erase_if(queue_, [&](const Part& part) { return part.key.owner == owner; });
}

void PartCache::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    queued_.wait(lock, [&] { return stopped_ || !queue_.empty(); });
    if (stopped_) return;
    const Part part = std::move(queue_.front());
    queue_.pop_front();
    if (!entries_.contains(part.key)) make(lock, part);
  }
}

}  // namespace gbcompress
