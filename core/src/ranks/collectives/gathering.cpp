#include "ranks/collectives/gathering.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "base/digest.h"
#include "gbcompress/error.h"

namespace gbcompress {
namespace {

using nlohmann::json;

constexpr int kProtocol = 1;
constexpr int kLookAgainMs = 50;
// Connections that have not said who they are: well below the 1,024 descriptors that a process has.
constexpr std::size_t kMaxStrangers = 256;
constexpr int kAcceptAtOnce = 64;
constexpr std::size_t kMaxNamed = 8;  // missing ranks in one message

std::string random_token() {
  std::array<char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Error(Errc::kFailure, "the system gives no random numbers");
  return to_hex({bytes.data(), bytes.size()});
}

}  // namespace

json process_json(const ProcessName& process) {
  return {{"host", process.host}, {"machine", process.machine}, {"pid", process.pid}};
}

// Not get<int>(): it casts numbers that no int holds, such as 1e300.
int read_int(const json& number) {
  const std::int64_t value = number.get_ref<const json::number_integer_t&>();
  if (value < 0 || !std::in_range<int>(value))
    throw json::out_of_range::create(406, "a number that is none of a rank's", &number);
  return static_cast<int>(value);
}

ProcessName read_process(const json& json) {
  return {json.at("host").get<std::string>(), json.at("machine").get<std::string>(),
          read_int(json.at("pid"))};
}

std::string hello_text(const MeetOptions& options, const std::string& token) {
  return json({{"protocol", kProtocol},
               {"token", token},
               {"rank", options.rank},
               {"process", process_json(this_process())}})
      .dump();
}

std::optional<Hello> read_hello(const Message& message, std::string_view token) {
  if (message.kind != MessageKind::kHello) return std::nullopt;
  const json hello = json::parse(message.body, nullptr, false);
  if (!hello.is_object()) return std::nullopt;
  const auto given = hello.find("token");
  if (given == hello.end() || !given->is_string()) return std::nullopt;
  // How long it takes must not tell how much of a guess is right.
  const std::string& guess = given->get_ref<const std::string&>();
  if (!equal_in_fixed_time(guess, token)) return std::nullopt;
  if (read_int(hello.at("protocol")) != kProtocol)
    throw Error(Errc::kFailure, "the ranks run different releases of gbcompress");
  return Hello{read_int(hello.at("rank")), read_process(hello.at("process"))};
}

Gathering::Gathering(KeyStore& store, const MeetOptions& options)
    : store_(store),
      options_(options),
      listener_(net::listen_on(options.listening.bind, 0)),
      token_(random_token()),
      members_(static_cast<std::size_t>(options.world - 1)) {
  // A connection may be gone between the news of it and accept(), which would then wait.
  ::fcntl(listener_.get(), F_SETFL, ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
  store_.set(options_.prefix + "control", json({{"host", options_.listening.advertise},
                                                {"port", net::port_of(listener_)},
                                                {"world", options_.world},
                                                {"token", token_},
                                                {"process", process_json(this_process())}})
                                              .dump());
}

std::vector<Peer> Gathering::wait() {
  try {
    while (present_ + 1 < options_.world) {
      std::vector<pollfd> fds = {{listener_.get(), POLLIN, 0}};
      for (const auto& stranger : strangers_) fds.push_back({stranger->fd(), POLLIN, 0});
      ::poll(fds.data(), fds.size(), kLookAgainMs);
      if (fds[0].revents) accept();
      identify_strangers();
      check_members();
      throw_if_given_up(store_, options_);
      options_.between();
      if (net::Clock::now() >= options_.deadline && present_ + 1 < options_.world)
        throw Error(Errc::kFailure, missing() + " did not come in time");
    }
  } catch (const Error& error) {
    dismiss(error.what());
    throw;
  }
  for (const Peer& member : members_) member.channel->send(MessageKind::kWelcome);
  return std::move(members_);
}

void Gathering::accept() {
  for (int n = 0; n < kAcceptAtOnce; ++n) {
    // A rank says who it is as it connects, so the longest silent ones are none of ours.
    if (strangers_.size() >= kMaxStrangers) strangers_.erase(strangers_.begin());
    net::Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) {
      if ((errno == EMFILE || errno == ENFILE) && !strangers_.empty())
        strangers_.erase(strangers_.begin());
      return;
    }
    strangers_.push_back(std::make_unique<Channel>(std::move(socket)));
  }
}

void Gathering::identify_strangers() {
  for (auto& stranger : strangers_) {
    std::vector<Message> messages;
    const bool open = stranger->receive(messages);
    if (messages.empty()) {
      if (!open) stranger.reset();
      continue;
    }
    // Whoever does not know the token is none of ours, and hears nothing.
    const std::optional<Hello> hello = read_hello(messages.front(), token_);
    if (!hello) {
      stranger.reset();
      continue;
    }
    const int rank = hello->rank;
    if (rank < 1 || rank >= options_.world || members_[static_cast<std::size_t>(rank - 1)].channel)
      throw Error(Errc::kFailure, "rank " + std::to_string(rank) + " came twice");
    members_[static_cast<std::size_t>(rank - 1)] = {rank, hello->process, std::move(stranger)};
    ++present_;
  }
  std::erase_if(strangers_, [](const auto& stranger) { return !stranger; });
}

void Gathering::check_members() {
  for (const Peer& member : members_) {
    std::vector<Message> ignored;
    if (!member.channel || member.channel->receive(ignored)) continue;
    // A launcher ends every rank once one has given up; the reason is that one's.
    throw_if_given_up(store_, options_);
    throw Error(Errc::kFailure, "rank " + std::to_string(member.rank) + " ended during the start");
  }
}

std::string Gathering::missing() const {
  std::string names;
  std::size_t count = 0;
  for (std::size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].channel) continue;
    if (++count <= kMaxNamed) names += (names.empty() ? "" : ", ") + std::to_string(i + 1);
  }
  if (count > kMaxNamed) names += " and " + std::to_string(count - kMaxNamed) + " more";
  return (count == 1 ? "rank " : "ranks ") + names;
}

void Gathering::dismiss(const std::string& why) noexcept {
  try {
    // First the store: whoever loses the connection looks there.
    store_.set(options_.prefix + "failed", why);
  } catch (const std::exception&) {  // it is gone; the connections tell
  }
  try {
    for (const Peer& member : members_)
      if (member.channel) member.channel->send(MessageKind::kFail, why);
  } catch (const std::exception&) {  // no memory; they see the end of the connection
  }
}

}  // namespace gbcompress
