// The monitor's own thread.
#include <poll.h>
#include <unistd.h>

#include <algorithm>

#include "gbcompress/error.h"
#include "gbcompress/ranks.h"
#include "ranks/liveness/monitor.h"

namespace gbcompress {
namespace {

using std::chrono::milliseconds;

// How long a main thread that does not know yet may take to find out.
constexpr milliseconds kGrace{500};
// A rank that reports its own failure may have something to clean up; the others do not wait for
// it.
constexpr milliseconds kReportedGrace{10'000};
constexpr milliseconds kLastWords{300};

}  // namespace

void Monitor::run() {
  for (;;) {
    poll_once();
    obey();
    const auto now = Clock::now();
    if (now >= next_beat_) beat(now);
    end_if_overdue(now);
    const std::lock_guard lock(mutex_);
    if (!stop_) continue;
    if (stop_by_ == Clock::time_point::max()) stop_by_ = now + kLastWords;
    if (flushed() || now >= stop_by_) return;
    next_beat_ = std::min(next_beat_, stop_by_);
  }
}

void Monitor::poll_once() {
  std::vector<pollfd> fds = {{wake_.get(), POLLIN, 0},
                             {launcher_ ? launcher_->fd() : -1, POLLIN, 0}};
  const std::size_t first = fds.size();
  for (const Peer& peer : peers_) {
    const short events = static_cast<short>(POLLIN | (peer.channel->wants_to_send() ? POLLOUT : 0));
    fds.push_back({peer.channel->fd(), events, 0});
  }
  const auto wait = std::chrono::ceil<milliseconds>(next_beat_ - Clock::now());
  ::poll(fds.data(), fds.size(), static_cast<int>(std::max<std::int64_t>(0, wait.count())));
  if (fds[0].revents) {
    std::uint64_t ignored = 0;
    static_cast<void>(::read(wake_.get(), &ignored, sizeof ignored));
  }
  if (fds[1].revents) {
    declare({rank_, "its launcher ended"}, true, kGrace);
    launcher_.reset();
  }
  // read() may drop a peer; from behind, the others keep their places.
  for (std::size_t i = peers_.size(); i-- > 0;) {
    if (fds[first + i].revents & POLLOUT) peers_[i].channel->flush();
    if (fds[first + i].revents & (POLLIN | POLLHUP | POLLERR)) read(peers_[i]);
  }
  std::erase_if(peers_, [](const Peer& peer) { return !peer.channel; });
}

void Monitor::obey() {
  std::optional<std::string> cause;
  bool done = false;
  {
    const std::lock_guard lock(mutex_);
    cause = report_;
    done = done_ && !done_told_;
  }
  if (cause) {
    declare({rank_, *cause}, true, kReportedGrace);
    // The socket has it, or never will.
    const std::lock_guard lock(mutex_);
    report_.reset();
    changed_.notify_all();
  }
  if (!done) return;
  done_told_ = true;
  if (rank_ == 0)
    count_done();
  else
    tell(MessageKind::kDone, {});
}

void Monitor::beat(Clock::time_point now) {
  next_beat_ = now + interval_;
  const std::uint64_t entered = entered_.load(std::memory_order_acquire);
  const Collective last = last_.load(std::memory_order_relaxed);
  std::string body;
  append_number(body, entered, 8);
  append_number(body, static_cast<std::uint64_t>(last), 1);
  const int awaited = awaited_.load(std::memory_order_acquire);
  const std::uint64_t wait = waits_.load(std::memory_order_relaxed);
  append_number(body, static_cast<std::uint64_t>(awaited + 1), 4);
  append_number(body, wait, 4);
  tell(MessageKind::kBeat, body);
  bool over = false;
  {
    const std::lock_guard lock(mutex_);
    over = all_done_ || failure_;
  }
  if (over) return;
  // Only rank 0 has the state of every rank; the others watch whether it runs.
  if (rank_ == 0) {
    vigil_.beat(rank_, entered, last, now);
    vigil_.wait(rank_, awaited, wait, now);
  }
  if (const auto failure = vigil_.check(now)) declare(*failure, true, kGrace);
  if (launcher_ && launcher_->ended()) {
    declare({rank_, "its launcher ended"}, true, kGrace);
    launcher_.reset();
  }
}

void Monitor::read(Peer& peer) {
  std::vector<Message> messages;
  const bool open = peer.channel->receive(messages);
  for (const Message& message : messages) handle(peer, message);
  if (open) return;
  peer.channel.reset();  // its number may soon be another process's, which gets no signal
  declare({peer.rank, "its process ended without a word: it was killed, or crashed"}, true, kGrace);
}

void Monitor::handle(Peer& peer, const Message& message) {
  std::string_view body = message.body;
  std::uint64_t a = 0, b = 0;
  switch (message.kind) {
    case MessageKind::kBeat:
      if (take_number(body, 8, a) && take_number(body, 1, b)) {
        // A rank behind rank 0 knows nothing of the others: no one is late there.
        const auto now = Clock::now();
        vigil_.beat(peer.rank, rank_ == 0 ? a : 0, static_cast<Collective>(b), now);
        if (rank_ == 0 && take_number(body, 4, a) && take_number(body, 4, b))
          vigil_.wait(peer.rank, static_cast<int>(a) - 1, b, now);
      }
      break;
    case MessageKind::kFail:
      if (take_number(body, 4, a) && a < static_cast<std::uint64_t>(world_))
        declare({static_cast<int>(a), printable(body)}, false, kGrace);
      break;
    case MessageKind::kDone:
      if (rank_ == 0) count_done();
      break;
    case MessageKind::kAllDone: {
      const std::lock_guard lock(mutex_);
      all_done_ = !failure_;
      changed_.notify_all();
      break;
    }
    case MessageKind::kHello:
    case MessageKind::kWelcome:
      break;
  }
}

void Monitor::count_done() {
  if (++done_count_ < world_) return;
  tell(MessageKind::kAllDone, {});
  const std::lock_guard lock(mutex_);
  all_done_ = !failure_;
  changed_.notify_all();
}

void Monitor::declare(Failure failure, bool own, milliseconds grace) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || all_done_) return;
    failure_ = failure;
    overdue_ = Clock::now() + grace;
  }
  failed_.store(true, std::memory_order_release);
  // Rank 0 spreads every failure; the others tell it what they alone know.
  if (rank_ == 0 || own) {
    std::string body;
    append_number(body, static_cast<std::uint64_t>(failure.rank), 4);
    body += failure.cause;
    tell(MessageKind::kFail, body);
  }
  {
    const std::lock_guard lock(abort_mutex_);
    if (abort_) abort_();
  }
  for (const Peer& peer : peers_)
    if (peer.channel) wake(peer.process);
  changed_.notify_all();
}

void Monitor::tell(MessageKind kind, std::string_view body) {
  for (Peer& peer : peers_)
    if (peer.channel) peer.channel->send(kind, body);
}

void Monitor::end_if_overdue(Clock::time_point now) {
  std::string sentence;
  {
    const std::lock_guard lock(mutex_);
    if (now < overdue_ || stop_) {
      if (failure_) next_beat_ = std::min(next_beat_, std::max(overdue_, now));
      return;
    }
    sentence = failure_sentence(*failure_, rank_);
  }
  // The main thread computes, or sits in a call that nothing can interrupt. Waiting for it would
  // keep the whole job; everything this process writes is whole or absent at any moment.
  log_line(sentence);
  write_error_file(sentence);
  ::_exit(kFailedTogether);
}

bool Monitor::flushed() const {
  return std::none_of(peers_.begin(), peers_.end(), [](const Peer& peer) {
    return peer.channel && peer.channel->wants_to_send();
  });
}

}  // namespace gbcompress
