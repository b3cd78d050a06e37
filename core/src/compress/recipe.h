#pragma once
/// How a model is trained into integers where the user does not say: from model and data alone, so
/// that the same call gives the same file on every machine.

#include <cstdint>

#include "gbcompress/compress.h"

namespace gbcompress {

/// Multiply-adds of one sample's forward pass: matrix products and convolutions as they are
/// dispatched, at least one for each parameter and prediction.
double multiply_adds(Model& model, const Dataset& data);

/// Sets what options.choose leaves to the program; options.choose is then all false.
/// @param data  what training sees and what pictures are tried on
void choose_recipe(CompressOptions& options, Model& model, const Data& data, const Dataset& train,
                   bool teacher);

/// Pixels that pictures may move and whether they may be mirrored, such that the model itself sees
/// the same in them, on `samples`.
struct Augmentation {
  std::int64_t shift = 0;
  bool flip = false;
};
/// @param harmless  quality drop that is allowed on images so changed, in points or nats
Augmentation harmless_augmentation(Model& model, const Dataset& samples, Metric metric,
                                   std::uint64_t seed, double harmless);

}  // namespace gbcompress
