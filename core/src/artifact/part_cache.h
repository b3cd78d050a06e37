#pragma once
/// Decoded parts of files in memory: each is made once however many threads request it, the least
/// recently used ones leave, and threads make parts ahead of the requests.

#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gbcompress/expanded_files.h"

namespace gbcompress {

class PartCache {
 public:
  /// @param most     bytes of all parts; the newest part stays whatever its size
  /// @param threads  that make parts ahead
  PartCache(std::int64_t most, int threads);
  ~PartCache();
  PartCache(const PartCache&) = delete;
  PartCache& operator=(const PartCache&) = delete;

  struct Key {
    std::uint64_t owner;
    std::size_t part;
    auto operator<=>(const Key&) const = default;
  };
  struct Part {
    Key key;
    std::int64_t bytes;
    std::function<HeldBytes()> make;
  };

  /// Waits where another thread makes the part. What make() throws is thrown in every thread that
  /// waits for it, and not kept. [thread-safe]
  HeldBytes get(const Part& part);
  /// A part that is likely to be requested. Nothing waits for it, and its errors are left to
  /// get(). [thread-safe]
  void ahead(Part part);

  /// A part that is not likely to be requested again, unless it is in the making. [thread-safe]
  void drop(const Key& key);
  /// Parts of that owner that wait to be made ahead are not made. [thread-safe]
  void forget_ahead(std::uint64_t owner);

  std::int64_t most() const noexcept { return most_; }
  /// Bytes of the parts that are here or in the making. [thread-safe]
  std::int64_t held() const;
  /// Bytes of all parts that were made since the constructor. [thread-safe]
  std::int64_t made() const;

 private:
  struct CachedPart {
    std::int64_t bytes = 0;
    bool ready = false;
    HeldBytes held = {};
    std::exception_ptr error = {};
    std::list<Key>::iterator used = {};
  };
  using CachedPartPtr = std::shared_ptr<CachedPart>;

  /// @return the part, ready. The lock is held before and after, not while the part is made
  CachedPartPtr make(std::unique_lock<std::mutex>& lock, const Part& part);
  void make_room();
  void work();

  const std::int64_t most_;
  mutable std::mutex mutex_;
  std::condition_variable changed_, queued_;
  std::map<Key, CachedPartPtr> entries_;
  std::list<Key> used_;  ///< of the entries, the latest first
  std::deque<Part> queue_;
  std::int64_t held_ = 0, made_ = 0;
  bool stopped_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace gbcompress
