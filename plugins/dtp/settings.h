#pragma once
/// What `strategy.options` tells the strategy "dtp".

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "inverses.h"

namespace gbcompress::dtp {

enum class Variant : std::uint8_t {
  kDtp,       ///< difference targets, feedback that learns the transpose (L-DRL)
  kVanilla,   ///< difference targets, feedback that learns to reconstruct
  kTp,        ///< targets without the difference
  kParallel,  ///< as kDtp, one Adam step a batch of all feedback networks
};

/// What steps the feedback networks.
enum class FeedbackOptimizer : std::uint8_t { kSgd, kAdam };

/// Of the feedback network of one layer.
struct LayerSettings {
  std::int64_t iterations = 10;  ///< K: steps a batch, 0 to 10,000
  double sigma = 0.05;           ///< deviation of the noise, above 0
  double rate = 0;               ///< learning rate, above 0; 0: from the layer
};

struct Settings {
  Variant variant = Variant::kDtp;
  std::vector<LayerSettings> layers;  ///< of stages 1, 2, ...: the first has none
  double beta = 0.7;                  ///< how far the output's target is from the output, above 0
  /// kSgd for kDtp, otherwise kAdam, unless it is given.
  FeedbackOptimizer optimizer = FeedbackOptimizer::kSgd;
  double momentum = 0.9;     ///< of SGD, 0 to below 1
  double beta2 = 0.95;       ///< of Adam's second moment, 0 to below 1
  double decay = 0;          ///< weight decay: added to SGD's gradients, decoupled with Adam
  std::int64_t samples = 1;  ///< draws of noise that an iteration averages over, 1 to 1,000
  InverseForm inverse = InverseForm::kTranspose;
  bool symmetric = false;  ///< begins with the transposes of the layers' weights
  /// Parts of a batch whose gradients are added up in a fixed tree, so that ranks can share one
  /// network: a power of two, 1 to 4096.
  std::int64_t shards = 1;
  std::int64_t diagnose = 0;  ///< measure angles every so many steps; 0: never
};

std::vector<std::string> option_names();

/// @param stages  of the model
/// @throws Error(kUsage) naming the option: out of range, or a list of another length
Settings read_settings(const std::map<std::string, std::string>& options, std::size_t stages);

}  // namespace gbcompress::dtp
