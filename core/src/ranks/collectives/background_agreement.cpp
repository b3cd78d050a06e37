#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "gbcompress/error.h"
#include "ranks/collectives/group_state.h"

namespace gbcompress {
namespace {

bool agree_through(GroupState& state, const std::string& key, bool ok) {
  if (!ok) state.store->add(key + "refused", 1);
  std::int64_t here = state.store->add(key + "here", 1);
  // The store sends no notifications; files are written meanwhile, so that this is rarely waited
  // for.
  for (auto pause = std::chrono::milliseconds{1}; here < state.world;) {
    state.monitor->check();
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds{20});
    here = state.store->add(key + "here", 0);
  }
  return state.store->add(key + "refused", 0) == 0;
}

}  // namespace

std::function<bool(bool)> Group::background_agreement(std::string name) {
  // Copies of the function count together.
  auto calls = std::make_shared<std::int64_t>(0);
  return [state = state_, name = std::move(name), calls = std::move(calls)](bool ok) {
    if (state->world == 1) return ok;
    const std::string key = state->prefix + "agree/" + name + "/" + std::to_string((*calls)++) + "/";
    try {
      return agree_through(*state, key, ok);
    } catch (const Error&) {
      // A store that is gone is news of a rank that is gone; the monitor knows which.
      if (const auto failure = state->monitor->failure(kFailureNews))
        throw Error(Errc::kFailure, failure_sentence(*failure, state->rank));
      throw;
    }
  };
}

}  // namespace gbcompress
