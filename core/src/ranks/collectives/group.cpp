#include <c10/util/Exception.h>

#include "gbcompress/error.h"
#include "ranks/collectives/group_state.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kShortest{100}, kLongest{24 * 3600 * 1000};

void check_timeout(milliseconds time) {
  if (time < kShortest || time > kLongest)
    throw Error(Errc::kUsage,
                "a timeout is " + std::to_string(time.count()) + " ms; use 0.1 to 86400 seconds");
}

std::string first_line(const std::exception& error) {
  const auto* torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch ? torch->what_without_backtrace() : error.what();
  return printable(text.substr(0, text.find('\n')));
}

}  // namespace

void GroupState::begin(Collective kind, std::int64_t bytes) {
  if (finished) throw Error(Errc::kUsage, "a collective was called after finish()");
  Traffic::Count& count = traffic.kinds[static_cast<std::size_t>(kind)];
  ++count.calls;
  count.bytes += bytes;
  if (!monitor) return;
  monitor->check();
  // What only two ranks call would put the counts of the others out of step.
  if (kind != Collective::kSend && kind != Collective::kReceive) monitor->enter(kind);
}

void GroupState::explain(Collective kind, const std::exception& error, int peer) {
  if (const auto failure = monitor->failure(kFailureNews))
    throw Error(Errc::kFailure, failure_sentence(*failure, rank));
  std::string what = "its " + std::string(collective_name(kind));
  if (peer >= 0)
    what += (kind == Collective::kSend ? " to rank " : " from rank ") + std::to_string(peer);
  const std::string cause = what + " failed: " + first_line(error);
  monitor->report(cause);
  throw Error(Errc::kFailure, "rank " + std::to_string(rank) + " failed: " + cause);
}

TransportWorkPtr GroupState::start(Collective kind, const std::function<TransportWorkPtr()>& begin,
                                   int peer) {
  try {
    return begin();
  } catch (const std::exception& error) {
    explain(kind, error, peer);
  }
}

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

void Pending::wait() {
  if (!impl_) return;
  const std::unique_ptr<Impl> impl = std::move(impl_);
  Monitor* const monitor = impl->peer >= 0 ? impl->state->monitor.get() : nullptr;
  if (monitor) monitor->await(impl->peer);
  try {
    for (const TransportWorkPtr& work : impl->works) work->wait();
  } catch (const std::exception& error) {
    impl->state->explain(impl->kind, error, impl->peer);
  }
  if (monitor) monitor->await(-1);
  if (impl->complete) impl->complete();
}

std::unique_ptr<Group> Group::open(const Launch& launch, const GroupOptions& options) {
  check_timeout(options.timeout);
  if (options.start_timeout != milliseconds{0}) check_timeout(options.start_timeout);
  std::optional<NcclPlace> nccl;
  if (options.backend == RankBackend::kNccl) nccl = find_nccl(launch, options.module);
  std::shared_ptr<GroupState> state;
  if (launch.world > 1) {
    state = open_state(launch, options, nccl);
  } else {
    state = std::make_shared<GroupState>();
    // There is no other rank, but a launcher to end with.
    if (launch.has_launcher)
      state->monitor = std::make_unique<Monitor>(0, 1, options.timeout, true, std::vector<Peer>());
  }
  return std::unique_ptr<Group>(new Group(std::move(state)));
}

Group::Group(std::shared_ptr<GroupState> state) : state_(std::move(state)) {}

Group::~Group() {
  if (!state_->transport || state_->finished) return;
  fail("it left before the work was done");
  // A collective that is still under way would keep the transport's threads, and so this one.
  state_->transport->abort();
}

int Group::rank() const noexcept { return state_->rank; }
int Group::world() const noexcept { return state_->world; }
const Traffic& Group::traffic() const noexcept { return state_->traffic; }

void Group::check() {
  if (state_->monitor) state_->monitor->check();
}

void Group::fail(std::string_view cause) noexcept {
  try {
    if (state_->monitor) state_->monitor->report(std::string(cause));
  } catch (const std::bad_alloc&) {  // the connection tells when it closes
  }
}

void Group::finish() {
  if (state_->finished) return;
  if (state_->monitor) state_->monitor->finish();
  state_->finished = true;
}

}  // namespace gbcompress
