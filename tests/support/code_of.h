#pragma once
/// The error code of a call, for tables of calls that must fail.

#include <functional>

#include "gbcompress/error.h"

namespace gbcompress {

/// The code of the Error that `action` throws; kFailure where it throws none.
inline Errc code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return Errc::kFailure;
}

}  // namespace gbcompress
