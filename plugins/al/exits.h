#pragma once
/// The architecture "exits": another one, with an early exit behind each component.

#include <gbcompress/registry.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "forms.h"

namespace gbcompress::al {

/// "exits:ARCH" or "exits:split=4+3+3,width=32,bridge=128,pool=2:ARCH", any of these and of the
/// forms.
struct ExitShape {
  std::string inner;                ///< ARCH
  /// Stages of each component; empty: one, and two for the first where inputs are tokens.
  std::vector<std::int64_t> split;
  std::int64_t width = 32;          ///< of the codes, 1 to 65,536
  std::int64_t bridge = 128;        ///< hidden units of a bridge, 0 to 65,536
  std::int64_t pool = 2;            ///< rows and columns before a bridge, 1 to 1,024
  Forms forms;                      ///< activations: codes=sigmoid, hidden=codes, decoder=codes
};

/// @return nothing for another architecture
/// @throws Error(kUsage) naming what is wrong
std::optional<ExitShape> exit_shape(const std::string& arch);

/// One stage for each component, but two for the first where inputs are tokens: an embedding only
/// looks vectors up.
/// @param stages  of the model, without its last one
std::vector<std::int64_t> default_split(std::size_t stages, bool tokens);

/// The split of ExitShape that gives these exits.
std::vector<std::int64_t> split_of(const std::vector<Exit>& exits);

/// ARCH's own module with further children exit1, exit2, ...: the bridge of a component
/// (bridge0, bridge1) and the layer that takes its code back to the one before (back). Exit K is
/// bridge K and `back` of K, ..., 1.
/// @throws Error(kUsage) for a model without stages, a split of other stages, or one whose answer
///         is not [rows, classes]
BuiltModel with_exits(const ModelRequest& request);

}  // namespace gbcompress::al
