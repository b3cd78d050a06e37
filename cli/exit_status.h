#pragma once
/// The one table from error codes to exit statuses (docs/reference/cli.md).

#include "gbcompress/error.h"

namespace gbcompress::cli {

enum ExitStatus : int {
  kDone = 0,
  kFailed = 1,        ///< failure without a faulty input; results could not be written
  kUsageStatus = 2,   ///< arguments, settings, an output that exists
  kBadInput = 3,      ///< an input file
  kTargetMissed = 4,  ///< the file is written, but exceeds the target
  kPluginStatus = 5,  ///< a plugin is refused or missing, or failed
  kSignalled = 128,   ///< plus the signal's number
};

/// An error while writing results: the disk is at fault, not the input.
class WriteError : public Error {
 public:
  using Error::Error;
};

/// @param writing  whether a result was being written
inline int exit_status(Errc code, bool writing, int signal) noexcept {
  switch (code) {
    case Errc::kFailure:
      return kFailed;
    case Errc::kUsage:
    case Errc::kExists:
    case Errc::kConfig:
      return kUsageStatus;
    case Errc::kIo:
      return writing ? kFailed : kBadInput;
    case Errc::kNotFound:
    case Errc::kTruncated:
    case Errc::kCorrupt:
    case Errc::kUnsupported:
    case Errc::kLimit:
    case Errc::kShapeMismatch:
    case Errc::kNonFinite:
      return kBadInput;
    case Errc::kPluginRefused:
    case Errc::kPluginMissing:
    case Errc::kPluginFailed:
      return kPluginStatus;
    case Errc::kTargetNotMet:
      return kTargetMissed;
    case Errc::kInterrupted:
      return kSignalled + signal;
  }
  return kFailed;
}

/// Runs what writes a result; a refusal of the operating system becomes a WriteError.
template <typename F>
auto writing(F&& act) {
  try {
    return act();
  } catch (const Error& error) {
    if (error.code() != Errc::kIo) throw;
    throw WriteError(error.code(), error.what());
  }
}

}  // namespace gbcompress::cli
