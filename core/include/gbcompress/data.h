#pragma once
/// Labeled data, split into a training set and a test set, which is only reported.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gbcompress/metric.h"
#include "gbcompress/train_options.h"
#include "gbcompress/version.h"

namespace GBC_API gbcompress {

struct Batch {
  at::Tensor inputs;  ///< [batch, ...] float32, or int64 [batch, context] for text
  /// [batch] or [batch, context] int64; float32, of the outputs' shape, for Metric::kOutputError.
  at::Tensor targets;
};

/// One split, in memory. [thread-safe]
class Dataset {
 public:
  Dataset(at::Tensor inputs, at::Tensor targets) : inputs_(inputs), targets_(targets) {}
  /// Batches are on this device from now on; the split itself stays where it is. Rows for a GPU go
  /// through pinned memory, and their transfer overlaps with what the host does next.
  void deliver_to(at::Device device) { device_ = device; }
  std::int64_t size() const {
    return rows_ ? static_cast<std::int64_t>(rows_->size()) : inputs_.size(0);
  }
  /// Rows `indices` of the split, as a batch.
  Batch gather(const std::vector<std::int64_t>& indices) const;
  Batch range(std::int64_t first, std::int64_t count) const;
  /// All rows, on the host.
  Batch everything() const;
  /// Predictions per sample: its labels, or its vectors of outputs.
  std::int64_t predictions() const;
  /// Whether targets are class numbers.
  bool has_classes() const;
  /// Some rows as a split of their own, in that order; nothing is copied.
  Dataset subset(const std::vector<std::int64_t>& indices) const;

 private:
  Dataset(at::Tensor inputs, at::Tensor targets, std::vector<std::int64_t> rows, at::Device device)
      : inputs_(inputs), targets_(targets), rows_(std::move(rows)), device_(device) {}
  Batch delivered(Batch batch) const;
  /// @param rows  of the tensors
  Batch selected(const std::vector<std::int64_t>& rows) const;
  /// Rows of this split as rows of the tensors. @throws Error(kUsage) for one that is not there
  std::vector<std::int64_t> rows_of(std::vector<std::int64_t> rows) const;

  at::Tensor inputs_, targets_;
  std::optional<std::vector<std::int64_t>> rows_;  ///< of the tensors; unset: all of them
  at::Device device_ = at::kCPU;                   ///< of batches
};

struct Data {
  std::string spec;  ///< "mnist:DIR"
  Dataset train, test;
  Metric metric = Metric::kAccuracy;
  std::int64_t classes = 0;
  /// False: there are inputs alone, until train.h's answered() says what a model makes of them.
  bool has_targets = true;
};

/// `mnist:DIR` (IDX, gzipped or not), `cifar10:FILE[,FILE]` (binary records, gzipped or not: train
/// then test; of one file alone the last fifth is held out; a folder with train.bin[.gz] and
/// test.bin[.gz], or with data_batch_*.bin and test_batch.bin, works too),
/// `text:FILE` (bytes, numbered in sorted order of those that occur; the last tenth is held out;
/// windows begin every half context to learn from, and do not overlap in the held-out part),
/// `digits` (1,797 embedded 8x8 digits), `tensors:FILE.safetensors` (`inputs`, `targets`, and
/// `test_inputs`, `test_targets` or the last tenth held out; `inputs` alone are
/// compared by the class that an original model gives the highest score), `features:FILE` (the same
/// with `inputs` alone, where the outputs themselves shall stay: Metric::kOutputError).
/// @throws Error(kUsage) for an unknown kind, Error(kNotFound, kCorrupt, ...) from the files
Data open_data(const std::string& spec, const DataOptions& options = {});

}  // namespace gbcompress
