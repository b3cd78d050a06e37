#pragma once
/// Rank 0's half of the rendezvous.

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ranks/rendezvous/rendezvous.h"

namespace gbcompress {

/// Listens, and lets everybody in who knows the token.
class Gathering {
 public:
  Gathering(KeyStore& store, const MeetOptions& options);
  /// @throws as meet()
  std::vector<Peer> wait();

 private:
  void accept();
  void identify_strangers();
  void check_members();
  std::string missing() const;
  void dismiss(const std::string& why) noexcept;

  KeyStore& store_;
  const MeetOptions& options_;
  net::Fd listener_;
  std::string token_;
  std::vector<std::unique_ptr<Channel>> strangers_;  ///< have not said who they are
  std::vector<Peer> members_;  ///< at index rank - 1; no channel: not here yet
  int present_ = 0;
};

/// Who a connection says it is.
struct Hello {
  int rank = 0;
  ProcessName process;
};
/// @param message  the first one of a connection
/// @return nothing for whoever does not know the token, which is compared in constant time
/// @throws Error(kFailure) for another release; nlohmann::json::exception for what knows the token
///         and is malformed
std::optional<Hello> read_hello(const Message& message, std::string_view token);

/// The message of a rank that has given up, where there is one.
std::optional<std::string> given_up(KeyStore& store, const MeetOptions& options);
/// @throws Error(kFailure) with that message
void throw_if_given_up(KeyStore& store, const MeetOptions& options);
std::string hello_text(const MeetOptions& options, const std::string& token);
nlohmann::json process_json(const ProcessName& process);
ProcessName read_process(const nlohmann::json& json);
/// @throws nlohmann::json::exception for all but integers from 0 that an int holds
int read_int(const nlohmann::json& number);

}  // namespace gbcompress
