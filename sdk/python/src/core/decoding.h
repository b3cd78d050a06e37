#pragma once
/// Tensors of a file that threads decode while Python does something else.

#include <nanobind/nanobind.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "artifact/read_many.h"
#include "base/fresh_memory.h"
#include "gbcompress/artifact.h"

namespace gbcompress::python {

class Decoding {
 public:
  /// Begins. All tensors lie in one memory, because huge pages make its first use several times
  /// faster.
  /// @param artifact  must outlive this
  /// @param reads     index and element type of each
  /// @throws Error(kUsage) for an element type that a tensor is not read as
  Decoding(const ArtifactReader& artifact, BaseSource base,
           const std::vector<std::pair<std::size_t, DType>>& reads, int threads);
  ~Decoding();
  Decoding(const Decoding&) = delete;
  Decoding& operator=(const Decoding&) = delete;

  /// Waits until a tensor is complete.
  /// @param place  in `reads`
  /// @return its bytes, which belong to the caller
  /// @throws Error, that of the first tensor that cannot be decoded; Error(kUsage) after stop()
  nanobind::object take(std::size_t place);
  /// Begins no further tensor, and waits for the threads.
  void stop();

 private:
  void run(const BaseSource& base, int threads);

  const ArtifactReader& artifact_;
  std::shared_ptr<FreshMemory> memory_;
  std::vector<ReadRequest> requests_;
  ReadProgress progress_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> done_;
  bool ended_ = false;
  std::exception_ptr failure_;
  std::thread thread_;
};

}  // namespace gbcompress::python
