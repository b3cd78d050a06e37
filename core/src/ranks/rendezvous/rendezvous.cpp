#include "ranks/rendezvous/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "gbcompress/error.h"
#include "ranks/collectives/gathering.h"

namespace gbcompress {
namespace {

using nlohmann::json;

constexpr int kLookAgainMs = 10;
// How long rank 0, which may serve the store, stays for others to read there why it gave up.
constexpr std::chrono::milliseconds kLastReading{1000};

/// Sees to it that others hear of it before this rank gives up.
[[noreturn]] void give_up(KeyStore& store, const MeetOptions& options, const std::string& why) {
  store.set(options.prefix + "failed", why);
  throw Error(Errc::kFailure, why);
}

void claim_rank(KeyStore& store, const MeetOptions& options) {
  const std::string key = options.prefix + "rank/" + std::to_string(options.rank);
  if (store.add(key, 1) > 1)
    give_up(store, options,
            "two processes have rank " + std::to_string(options.rank) +
                "; give every process a rank of its own");
}

/// What rank 0 put into the store, once it is there.
json wait_for_rank_0(KeyStore& store, const MeetOptions& options) {
  for (;;) {
    throw_if_given_up(store, options);
    if (const auto text = store.get(options.prefix + "control")) return json::parse(*text);
    options.between();
    if (net::Clock::now() >= options.deadline)
      throw Error(Errc::kFailure, "rank 0 did not start in time");
    ::poll(nullptr, 0, kLookAgainMs);
  }
}

/// Why rank 0 closed the connection: what it sent may be lost with it (closing a socket that holds
/// unread bytes resets the connection), what it left in the store is not.
[[noreturn]] void throw_after_rank_0(KeyStore& store, const MeetOptions& options) {
  std::optional<std::string> why;
  try {
    why = given_up(store, options);
  } catch (const Error&) {  // the store ended with rank 0, which was killed
  }
  throw Error(Errc::kFailure, why.value_or("rank 0 ended during the start; see its message"));
}

/// Counts this rank out. Rank 0 stays until everybody who came has left, so that all of them can
/// still read the reason.
void leave(KeyStore& store, const MeetOptions& options) noexcept {
  try {
    store.add(options.prefix + "left", 1);
    if (options.rank != 0) return;
    const auto until = net::Clock::now() + kLastReading;
    while (store.add(options.prefix + "left", 0) < store.add(options.prefix + "came", 0) &&
           net::Clock::now() < until) {
      options.between();
      ::poll(nullptr, 0, kLookAgainMs);
    }
  } catch (...) {  // the store is gone, or the user does not want to wait
  }
}

std::vector<Peer> join(KeyStore& store, const MeetOptions& options) {
  const json control = wait_for_rank_0(store, options);
  const int world = read_int(control.at("world"));
  if (world != options.world)
    give_up(store, options,
            "rank " + std::to_string(options.rank) + " was started with a world of " +
                std::to_string(options.world) + " ranks, rank 0 with " + std::to_string(world) +
                "; start all with the same number");
  Peer rank_0;
  rank_0.process = read_process(control.at("process"));
  rank_0.channel = std::make_unique<Channel>(net::connect_to(
      control.at("host").get<std::string>(), read_int(control.at("port")), options.deadline, [&] {
        throw_if_given_up(store, options);
        options.between();
      }));
  rank_0.channel->send(MessageKind::kHello, hello_text(options, control.at("token")));
  for (;;) {
    std::vector<Message> messages;
    const bool open = rank_0.channel->receive(messages);
    for (const Message& message : messages) {
      if (message.kind == MessageKind::kWelcome) {
        std::vector<Peer> peers;
        peers.push_back(std::move(rank_0));
        return peers;
      }
      if (message.kind == MessageKind::kFail) throw Error(Errc::kFailure, printable(message.body));
    }
    if (!open) throw_after_rank_0(store, options);
    options.between();
    // Rank 0 tells who is missing; the second makes sure that it is not this rank that speaks
    // first.
    if (net::Clock::now() >= options.deadline + std::chrono::seconds{1})
      throw Error(Errc::kFailure, "rank 0 did not respond in time");
    pollfd one{rank_0.channel->fd(), POLLIN, 0};
    ::poll(&one, 1, kLookAgainMs);
  }
}

}  // namespace

std::optional<std::string> given_up(KeyStore& store, const MeetOptions& options) {
  auto why = store.get(options.prefix + "failed");
  if (why) why = printable(*why);
  return why;
}

void throw_if_given_up(KeyStore& store, const MeetOptions& options) {
  if (const auto why = given_up(store, options)) throw Error(Errc::kFailure, *why);
}

std::vector<Peer> meet(KeyStore& store, const MeetOptions& options) {
  store.add(options.prefix + "came", 1);
  try {
    claim_rank(store, options);
    return options.rank == 0 ? Gathering(store, options).wait() : join(store, options);
  } catch (const json::exception&) {
    leave(store, options);
    throw Error(
        Errc::kFailure,
        "the first messages between ranks are malformed; is another program using this port?");
  } catch (...) {
    leave(store, options);
    throw;
  }
}

}  // namespace gbcompress
