#pragma once
/// How a model is found in a file that holds more than one.

#include <string>

#include "gbcompress/export.h"

namespace GBC_API gbcompress {

struct OpenOptions {
  /// Every tensor and number of a checkpoint under its full dotted name, also optimizers' and
  /// schedulers'.
  bool keep_all = false;
  /// The part of a checkpoint that is the model, by its dotted name ("generator",
  /// "ema.state_dict");
  /// "" to find it.
  std::string part = {};
};

}  // namespace gbcompress
