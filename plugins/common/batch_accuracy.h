#pragma once
/// How many rows of a training batch are classified correctly.

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace gbcompress {

/// Percent of the rows whose label has the highest score, and whose label is among the five
/// highest.
struct BatchAccuracy {
  double top1 = 0, top5 = 0;

  /// Adds "train_accuracy_percent" and "train_top5_percent".
  void add_to(std::map<std::string, double>& measured) const;
};

/// @param scores   [rows, classes], or [rows, positions, classes]
/// @param targets  int64, one a row or position. Other targets have no accuracy: zeros
BatchAccuracy batch_accuracy(const at::Tensor& scores, const at::Tensor& targets);

}  // namespace gbcompress
