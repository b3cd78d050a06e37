// The start: everything that may block runs on a thread of its own, so that neither a silent port
// nor a stopped rank 0 can keep the main thread beyond the time limit, or from a signal.
#include <signal.h>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

#include "gbcompress/error.h"
#include "ranks/collectives/group_state.h"
#include "ranks/liveness/seconds.h"
#include "ranks/rendezvous/socket_census.h"

namespace gbcompress {
namespace {

using net::Clock;
using std::chrono::milliseconds;

// Gloo's own limit ends what the monitor does not see, such as a broken line between two ranks that
// both still hear rank 0. It leaves the monitor, which can name the rank, the first word.
constexpr milliseconds kBehindMonitor{2000};
// The same for the thread of the start, whose messages say more than "it took too long".
constexpr milliseconds kBehindThread{1500};
constexpr milliseconds kLook{20};

struct Start {
  Launch launch;
  GroupOptions options;
  std::optional<NcclPlace> nccl;
  Clock::time_point deadline;
  SocketCensus sockets;

  std::atomic<bool> cancelled{false};
  std::mutex mutex;
  std::condition_variable changed;
  bool over = false;
  std::string stage;
  std::exception_ptr error;
  std::shared_ptr<GroupState> result;

  void enter(std::string what) {
    const std::lock_guard lock(mutex);
    stage = std::move(what);
  }
  milliseconds left() const {
    return std::max(milliseconds{1},
                    std::chrono::duration_cast<milliseconds>(deadline - Clock::now()));
  }
};

/// Where this rank connects to. @throws Error(kUsage) where that would need --listen
std::string meeting_place(const Launch& launch, const std::string& listen) {
  if (!listen.empty()) return launch.master_host;
  const bool here = launch.on_one_machine() || net::is_loopback(launch.master_host);
  if (!here)
    throw Error(Errc::kUsage,
                "the ranks meet at " + printable(launch.master_host) +
                    ", so they may run on several machines, but this program accepts connections "
                    "from its own machine only; give `listen` ADDRESS, `listen` INTERFACE or "
                    "`listen` any (nothing is encrypted: use a network you trust)");
  if (launch.agent_store) return launch.master_host;
  return launch.master_host.find(':') == std::string::npos ? "127.0.0.1" : "::1";
}

void meet_others(Start& start) {
  const Launch& launch = start.launch;
  const auto between = [&] {
    if (start.cancelled) throw Error(Errc::kInterrupted, "the start was given up");
  };
  start.enter("looking up addresses");
  const std::string host = meeting_place(launch, start.options.listen);
  const std::string where = net::endpoint_text(host, launch.master_port);
  const net::Listening listening =
      net::resolve_listen(start.options.listen, host, launch.master_port);
  auto state = std::make_shared<GroupState>();
  state->rank = launch.rank;
  state->world = launch.world;

  net::Fd listener;
  if (launch.rank == 0 && !launch.agent_store) {
    listener = net::listen_on(listening.bind, launch.master_port);
  } else {
    start.enter("connecting to " + where);
    // TCPStore would wait without looking up, and say less.
    net::connect_to(host, launch.master_port, start.deadline, between);
  }
  start.enter("talking to the store at " + where);
  state->store =
      std::make_unique<TcpKeyStore>(host, launch.master_port, std::move(listener), start.left());
  const std::string prefix = "gbcompress/" + launch.job + "/";
  state->prefix = prefix;
  start.enter("waiting for the other ranks at " + where);
  std::vector<Peer> peers =
      meet(*state->store, {launch.rank, launch.world, listening, prefix, start.deadline, between});
  state->monitor = std::make_unique<Monitor>(launch.rank, launch.world, start.options.timeout,
                                             launch.has_launcher, std::move(peers));
  start.enter("connecting the ranks with each other");
  try {
    const milliseconds limit = start.options.timeout + kBehindMonitor;
    const auto look = [&] {
      between();
      state->monitor->check();
    };
    state->transport = start.nccl ? make_nccl(*state->store, prefix + "nccl", launch.rank,
                                              launch.world, *start.nccl, limit, look)
                                  : make_gloo(*state->store, prefix + "gloo", launch.rank,
                                              launch.world, listening.advertise, limit);
  } catch (const std::exception& error) {
    state->explain(Collective::kBarrier, error);
  }
  state->monitor->on_failure([transport = state->transport.get()] { transport->abort(); });
  state->monitor->check();
  start.result = std::move(state);
}

/// Gloo writes to connections in a way that would end the process when the other side is gone.
void ignore_broken_pipes() {
  struct sigaction action {};
  if (::sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, nullptr);
}

void run(const std::shared_ptr<Start>& start) {
  std::exception_ptr error;
  try {
    meet_others(*start);
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(start->mutex);
  start->error = error;
  start->over = true;
  start->changed.notify_all();
}

}  // namespace

std::shared_ptr<GroupState> open_state(const Launch& launch, const GroupOptions& options,
                                       const std::optional<NcclPlace>& nccl) {
  ignore_broken_pipes();
  const auto start = std::make_shared<Start>();
  start->launch = launch;
  start->options = options;
  start->nccl = nccl;
  const milliseconds limit =
      options.start_timeout.count() > 0 ? options.start_timeout : options.timeout;
  start->deadline = Clock::now() + limit;
  std::optional<LauncherWatch> launcher;
  if (launch.has_launcher) launcher.emplace();
  std::thread thread([start] { run(start); });

  std::exception_ptr given_up;
  {
    std::unique_lock lock(start->mutex);
    while (!start->changed.wait_for(lock, kLook, [&] { return start->over; })) {
      try {
        throw_if_interrupted();
        if (launcher && launcher->ended())
          throw Error(Errc::kFailure, "the launcher of this rank ended during the start");
        if (Clock::now() > start->deadline + kBehindThread)
          throw Error(Errc::kFailure, "the start did not end within " + seconds_text(limit) +
                                          ": it got as far as " + start->stage);
      } catch (...) {
        given_up = std::current_exception();
        break;
      }
    }
  }
  if (!given_up) {
    thread.join();
    if (start->error) std::rethrow_exception(start->error);
    return std::move(start->result);
  }
  // Whatever the thread waits for ends now. Should it not, it is left behind: the process ends
  // anyway.
  start->cancelled = true;
  start->sockets.close_books();
  start->sockets.shut_down();
  bool over = false;
  {
    std::unique_lock lock(start->mutex);
    over = start->changed.wait_for(lock, milliseconds{1000}, [&] { return start->over; });
  }
  if (over)
    thread.join();
  else
    thread.detach();
  std::rethrow_exception(given_up);
}

}  // namespace gbcompress
