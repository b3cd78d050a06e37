#pragma once
/// Threads that stay, for pieces of work that do not depend on each other.

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace gbcompress::al {

class Workers {
 public:
  /// @param threads  with the caller's, at least 1
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  /// Calls body(0), ..., body(pieces - 1), each once, in any order, and returns when all are done.
  /// @throws the first exception of a piece
  void run(std::size_t pieces, const std::function<void(std::size_t)>& body);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable begun_, done_;
  const std::function<void(std::size_t)>* body_ = nullptr;
  std::size_t pieces_ = 0, next_ = 0, running_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace gbcompress::al
