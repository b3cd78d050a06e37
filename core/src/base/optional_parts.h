#pragma once
/// Parts of the decoder that a build of libgbz may leave out (sdk/c/sources.cmake). A tensor that
/// needs such a part is refused by need() before it is decoded, so code that a constant here
/// excludes is never reached; the compiler drops it.

#include <string>

#include "gbcompress/error.h"

namespace gbcompress::optional_parts {

#ifdef GBZ_WITHOUT_SMALL
inline constexpr bool kSmall = false;
#else
inline constexpr bool kSmall = true;
#endif
#ifdef GBZ_WITHOUT_PIECES
inline constexpr bool kPieces = false;
#else
inline constexpr bool kPieces = true;
#endif
#ifdef GBZ_WITHOUT_BLOCKS
inline constexpr bool kBlocks = false;
#else
inline constexpr bool kBlocks = true;
#endif
#ifdef GBZ_WITHOUT_DELTAS
inline constexpr bool kDeltas = false;
#else
inline constexpr bool kDeltas = true;
#endif
#ifdef GBZ_WITHOUT_GNETS
inline constexpr bool kGnets = false;
#else
inline constexpr bool kGnets = true;
#endif
#ifdef GBZ_WITHOUT_LEVELS
inline constexpr bool kLevels = false;
#else
inline constexpr bool kLevels = true;
#endif
#ifdef GBZ_WITHOUT_PLANES
inline constexpr bool kPlanes = false;
#else
inline constexpr bool kPlanes = true;
#endif
#ifdef GBZ_WITHOUT_ARCHITECTURES
inline constexpr bool kArchitectures = false;
#else
inline constexpr bool kArchitectures = true;
#endif

/// @throws Error(kUnsupported) for a part that this build leaves out
inline void need(bool part, const char* what) {
  if (!part)
    throw Error(Errc::kUnsupported,
                std::string("the file has ") + what + ", which this build of libgbz leaves out");
}

}  // namespace gbcompress::optional_parts
