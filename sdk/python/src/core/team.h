#pragma once
/// Threads for calls of some hundred microseconds that follow one another: starting a thread, with
/// its memory, takes about as long as one thread's part of them.

#include <functional>

namespace gbcompress::python {

/// Calls body(0), ..., body(parts - 1), each once: part 0 on the calling thread, each other part on
/// a thread of its own that stays for later calls and sleeps after a short wait. Where another call
/// is at work, new threads are started. After a fork the child starts its own threads. The first
/// exception is thrown here.
void team_tasks(int parts, const std::function<void(int)>& body);

}  // namespace gbcompress::python
