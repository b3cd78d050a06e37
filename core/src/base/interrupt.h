#pragma once
/// A request to stop, set by a signal handler and asked for between steps.

#include "base/internal.h"

namespace GBC_INTERNAL gbcompress {

/// [async-signal-safe] @param signal  2 for SIGINT, 15 for SIGTERM
void request_interrupt(int signal) noexcept;
/// The signal that asked to stop, 0 for none. [thread-safe]
int interrupt_requested() noexcept;
/// [async-signal-safe] Asks for a checkpoint; the work goes on.
void request_checkpoint() noexcept;
/// Whether one was asked for since the last call. [thread-safe]
bool take_checkpoint_request() noexcept;
/// @throws Error(kInterrupted) after a request to stop
void throw_if_interrupted();

}  // namespace gbcompress
