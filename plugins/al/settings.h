#pragma once
/// What `strategy.options` tells the strategy "al".

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "exits.h"
#include "forms.h"

namespace gbcompress::al {

struct Settings {
  std::vector<std::int64_t>
      split;  ///< stages of each component, at least 1; the last stage is none's
  std::vector<std::int64_t> widths;  ///< of each component's code of the label, 1 to 65,536
  std::int64_t bridge = 128;         ///< hidden units of a bridge, 0: none, to 65,536
  std::int64_t pool = 2;     ///< maps are pooled to so many rows and columns before a bridge
  Forms forms;               ///< activations
  CodeLoss loss = CodeLoss::kNats;
  double lr = 1e-3;          ///< of bridges and autoencoders, above 0
  double lr_end = 1e-3;      ///< of the last batch: half a cosine leads from lr to it
  double beta2 = 0.95;       ///< of the second moment of their Adam, 0 to below 1
  bool pipeline = false;     ///< component i works on the batch of i - 1 steps ago
  std::int64_t threads = 1;  ///< that components are computed by, with pipeline; 1 to 64
  /// Rank of each component and of the last stage, with pipeline; empty: by measured cost.
  std::vector<std::int64_t> placement;
  std::int64_t exits = 0;    ///< measure early exits every so many steps; 0: never
};

std::vector<std::string> option_names();

/// @param stages  of the model
/// @param tokens  whether its inputs are tokens: the first stage then only looks vectors up, and by
///                default makes up a component with the next one
/// @param exits   of the model's architecture, whose split, widths, bridge and pool then hold
/// @throws Error(kUsage) naming the option: out of range, a list of another length, a split of
///         other stages
Settings read_settings(const std::map<std::string, std::string>& options, std::size_t stages,
                       bool tokens, const std::optional<ExitShape>& exits);

}  // namespace gbcompress::al
