#include "dist/rendezvous.h"

#include <poll.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.h"
#include "dist/gathering.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using nlohmann::json;

constexpr int kLookAgainMs = 10;

/// Sees to it that others hear of it before this rank gives up.
[[noreturn]] void give_up(KeyStore& store, const MeetOptions& options, const std::string& why) {
  store.set(options.prefix + "failed", why);
  throw Error(Errc::kFailure, why);
}

void claim_rank(KeyStore& store, const MeetOptions& options) {
  const std::string key = options.prefix + "rank/" + std::to_string(options.rank);
  if (store.add(key, 1) > 1)
    give_up(store, options,
            "two processes say that they are rank " + std::to_string(options.rank) +
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

std::vector<Peer> join(KeyStore& store, const MeetOptions& options) {
  const json control = wait_for_rank_0(store, options);
  const int world = control.at("world").get<int>();
  if (world != options.world)
    give_up(store, options,
            "rank " + std::to_string(options.rank) + " was told that there are " +
                std::to_string(options.world) + " ranks, rank 0 that there are " +
                std::to_string(world) + "; start all with the same number");
  Peer rank_0;
  rank_0.process = read_process(control.at("process"));
  rank_0.channel = std::make_unique<Channel>(net::connect_to(
      control.at("host").get<std::string>(), control.at("port").get<int>(), options.deadline, [&] {
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
    if (!open) throw Error(Errc::kFailure, "rank 0 ended during the start; see its message");
    options.between();
    // Rank 0 tells who is missing; the second makes sure that it is not this rank that speaks
    // first.
    if (net::Clock::now() >= options.deadline + std::chrono::seconds{1})
      throw Error(Errc::kFailure, "rank 0 did not answer in time");
    pollfd one{rank_0.channel->fd(), POLLIN, 0};
    ::poll(&one, 1, kLookAgainMs);
  }
}

}  // namespace

void throw_if_given_up(KeyStore& store, const MeetOptions& options) {
  if (const auto why = store.get(options.prefix + "failed"))
    throw Error(Errc::kFailure, printable(*why));
}

std::vector<Peer> meet(KeyStore& store, const MeetOptions& options) {
  claim_rank(store, options);
  try {
    return options.rank == 0 ? Gathering(store, options).wait() : join(store, options);
  } catch (const json::exception&) {
    throw Error(Errc::kFailure,
                "what the ranks told each other at the start is malformed; is another program "
                "using this port?");
  }
}

}  // namespace gbcompress
