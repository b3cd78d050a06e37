#pragma once
/// The architecture "exits": another one, with an early exit behind each component.

#include <gbcompress/registry.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gbcompress::al {

/// "exits:ARCH" or "exits:split=4+3+3,width=32,bridge=128,pool=2:ARCH", any of the four.
struct ExitShape {
  std::string inner;                ///< ARCH
  std::vector<std::int64_t> split;  ///< stages of each component; empty: one
  std::int64_t width = 32;          ///< of the codes, 1 to 65,536
  std::int64_t bridge = 128;        ///< hidden units of a bridge, 0 to 65,536
  std::int64_t pool = 2;            ///< rows and columns before a bridge, 1 to 1,024
};

/// @return nothing for another architecture
/// @throws Error(kUsage) naming what is wrong
std::optional<ExitShape> exit_shape(const std::string& arch);

/// ARCH's own module with further children exit1, exit2, ...: the bridge of a component
/// (bridge0, bridge1) and the layer that takes its code back to the one before (back). Exit K is
/// bridge K and `back` of K, ..., 1.
/// @throws Error(kUsage) for a model without stages, a split of other stages, or one whose answer
///         is not [rows, classes]
BuiltModel with_exits(const ModelRequest& request);

}  // namespace gbcompress::al
