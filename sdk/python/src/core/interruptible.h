#pragma once
/// Work that Ctrl-C ends.

#include <nanobind/nanobind.h>

#include <chrono>
#include <exception>
#include <future>

#include "gbcompress/error.h"

namespace gbcompress::python {

namespace nb = nanobind;

inline constexpr auto kBetweenSignals = std::chrono::milliseconds(50);

/// Runs `work` on another thread without the interpreter's lock, so that Ctrl-C ends it: signal
/// handlers of Python run on this one.
template <typename Work>
auto interruptible(const Work& work) {
  auto result = std::async(std::launch::async, work);
  const auto done = [&] {
    const nb::gil_scoped_release release;
    return result.wait_for(kBetweenSignals) == std::future_status::ready;
  };
  bool stopped = false;
  while (!done()) {
    if (stopped || PyErr_CheckSignals() == 0) continue;
    stopped = true;
    request_interrupt(2);
  }
  if (!stopped) return result.get();
  request_interrupt(0);
  try {
    (void)result.get();
  } catch (const std::exception&) {
    // Python's own exception, KeyboardInterrupt as a rule, says it better.
  }
  throw nb::python_error();
}

}  // namespace gbcompress::python
