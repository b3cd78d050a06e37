#include "gbcompress/error.h"

namespace gbcompress {

std::string_view errc_name(Errc code) noexcept {
  switch (code) {
    case Errc::kFailure: return "failure";
    case Errc::kUsage: return "usage";
    case Errc::kNotFound: return "not_found";
    case Errc::kExists: return "exists";
    case Errc::kIo: return "io";
    case Errc::kTruncated: return "truncated";
    case Errc::kCorrupt: return "corrupt";
    case Errc::kUnsupported: return "unsupported";
    case Errc::kLimit: return "limit";
    case Errc::kShapeMismatch: return "shape_mismatch";
    case Errc::kNonFinite: return "non_finite";
    case Errc::kConfig: return "config";
    case Errc::kPluginRefused: return "plugin_refused";
    case Errc::kPluginMissing: return "plugin_missing";
    case Errc::kTargetNotMet: return "target_not_met";
    case Errc::kInterrupted: return "interrupted";
    case Errc::kPluginFailed:
      return "plugin_failed";
  }
  return "failure";
}

}  // namespace gbcompress
