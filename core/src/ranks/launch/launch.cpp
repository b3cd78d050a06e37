#include "gbcompress/ranks.h"

#include <charconv>
#include <cstdlib>

#include "base/digest.h"
#include "gbcompress/error.h"
#include "ranks/launch/launch_reader.h"

namespace gbcompress {
namespace launch {
namespace {

constexpr int kDefaultPort = 29500;  // torch's
constexpr int kLastPort = 65'535;
// Below the ports that Linux hands out by itself (32768 and up), above the well-known ones.
constexpr int kFirstJobPort = 20'000, kJobPorts = 10'000;
constexpr std::size_t kLongestHost = 255;

[[noreturn]] void refuse(const std::string& sentence) { throw Error(Errc::kUsage, sentence); }

void check_host(const std::string& host, const std::string& what) {
  if (host.empty() || host.size() > kLongestHost ||
      host.find_first_of(" \t\r\n/") != std::string::npos)
    refuse(what + " is \"" + printable(host.substr(0, 64)) +
           "\", which is no name or address of a machine");
}

void check_pair(const Launch& launch, const std::string& rank_name, const std::string& world_name) {
  if (launch.rank >= launch.world)
    refuse(rank_name + " is " + std::to_string(launch.rank) + " but " + world_name + " is " +
           std::to_string(launch.world) + "; ranks count from 0 to " +
           std::to_string(launch.world - 1));
}

bool read_flags(const LaunchFlags& flags, const Reader& reader, Launch& into) {
  if (!flags.rank && !flags.world) {
    if (flags.local_rank || flags.master)
      refuse(std::string(flags.master ? "`master`" : "`local_rank`") +
             " is an option of several processes; give `rank` and `world` too");
    return false;
  }
  if (!flags.world) refuse("`rank` is given without `world`; give the number of ranks");
  if (!flags.rank) refuse("`world` is given without `rank`; give the rank of this process");
  into.launcher = Launcher::kFlags;
  into.world = parse_number(*flags.world, "`world`", 1, kMaxWorld);
  into.rank = parse_number(*flags.rank, "`rank`", 0, kMaxWorld - 1);
  check_pair(into, "`rank`", "`world`");
  if (flags.local_rank)
    into.local_rank = parse_number(*flags.local_rank, "`local_rank`", 0, kMaxWorld - 1);
  if (!flags.master) {
    choose_master(reader, "", "", into);
    return true;
  }
  const std::size_t colon = flags.master->rfind(':');
  if (colon == std::string::npos)
    refuse("`master` is \"" + printable(*flags.master) + "\"; write HOST:PORT");
  std::string host = flags.master->substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  check_host(host, "the host of `master`");
  const int port =
      parse_number(flags.master->substr(colon + 1), "the port of `master`", 1, kLastPort);
  if (into.world > 1) {
    into.master_host = host;
    into.master_port = port;
  }
  return true;
}

bool read_torchrun(const Reader& reader, Launch& into) {
  if (!read_pair(reader, "RANK", "WORLD_SIZE", into)) return false;
  into.launcher = Launcher::kTorchrun;
  read_local(reader, "LOCAL_RANK", "LOCAL_WORLD_SIZE", into);
  if (const auto agent = reader.text("TORCHELASTIC_USE_AGENT_STORE")) {
    if (*agent != "True" && *agent != "False")
      refuse("TORCHELASTIC_USE_AGENT_STORE is \"" + printable(*agent) + "\"; use True or False");
    into.agent_store = *agent == "True";
  }
  into.has_launcher = reader.has("TORCHELASTIC_RUN_ID");
  into.job = reader.text("TORCHELASTIC_RUN_ID").value_or("") + "." +
             reader.text("TORCHELASTIC_RESTART_COUNT").value_or("0");
  // torchrun always says both. By hand one may forget them, and then a guess would meet strangers.
  if (into.world > 1 && !reader.has("MASTER_PORT"))
    refuse("MASTER_PORT is not set; give the port where the ranks meet");
  choose_master(reader, "", "", into);
  return true;
}

}  // namespace

std::optional<std::string> Reader::text(const char* name) const {
  const char* value = environment_(name);
  if (!value || !*value) return std::nullopt;
  return std::string(value);
}

std::optional<int> Reader::number(const char* name, int least, int most) const {
  const auto value = text(name);
  if (!value) return std::nullopt;
  return parse_number(*value, name, least, most);
}

int parse_number(const std::string& text, const std::string& what, int least, int most) {
  int value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code == std::errc::invalid_argument || stop != end)
    refuse(what + " is \"" + printable(text.substr(0, 64)) + "\", which is not an integer");
  if (code == std::errc::result_out_of_range || value < least || value > most)
    refuse(what + " is " + text.substr(0, 64) + "; use " + std::to_string(least) + " to " +
           std::to_string(most));
  return value;
}

bool read_pair(const Reader& reader, const char* rank_name, const char* world_name, Launch& into) {
  const bool rank = reader.has(rank_name), world = reader.has(world_name);
  if (!rank && !world) return false;
  if (!rank || !world) {
    const std::string given = rank ? rank_name : world_name;
    const std::string missing = rank ? world_name : rank_name;
    refuse(given + " is set without " + missing + "; set both, or unset " + given);
  }
  into.world = *reader.number(world_name, 1, kMaxWorld);
  into.rank = *reader.number(rank_name, 0, kMaxWorld - 1);
  check_pair(into, rank_name, world_name);
  return true;
}

void read_local(const Reader& reader, const char* rank_name, const char* world_name, Launch& into) {
  into.local_rank = reader.number(rank_name, 0, kMaxWorld - 1);
  into.local_world = reader.number(world_name, 1, kMaxWorld);
  if (!into.local_world) return;
  if (*into.local_world > into.world)
    refuse(std::string(world_name) + " is " + std::to_string(*into.local_world) +
           ", more than the " + std::to_string(into.world) + " ranks in all");
  if (into.local_rank && *into.local_rank >= *into.local_world)
    refuse(std::string(rank_name) + " is " + std::to_string(*into.local_rank) + " but " +
           world_name + " is " + std::to_string(*into.local_world));
}

void choose_master(const Reader& reader, const std::string& host, const std::string& identity,
                   Launch& into) {
  const auto address = reader.text("MASTER_ADDR");
  const auto port = reader.number("MASTER_PORT", 1, kLastPort);
  if (into.world == 1) return;
  if (!address && host.empty())
    refuse(into.launcher == Launcher::kFlags
               ? "there are several ranks but no place where they meet; give `master` HOST:PORT"
               : "MASTER_ADDR is not set; give the machine of rank 0 (127.0.0.1 where all ranks "
                 "run on one)");
  into.master_host = address.value_or(host);
  check_host(into.master_host, address ? "MASTER_ADDR" : "the first machine of the job");
  if (port)
    into.master_port = *port;
  else if (identity.empty())
    into.master_port = kDefaultPort;
  else
    into.master_port =
        kFirstJobPort + static_cast<int>(xxh3_64(std::as_bytes(std::span(identity))) % kJobPorts);
}

}  // namespace launch

Launch read_launch(const LaunchFlags& flags) {
  return read_launch(flags, [](const char* name) { return std::getenv(name); });
}

Launch read_launch(const LaunchFlags& flags, const Environment& environment) {
  const launch::Reader reader(environment);
  Launch found;
  if (launch::read_flags(flags, reader, found) || launch::read_torchrun(reader, found) ||
      launch::read_open_mpi(reader, found) || launch::read_pmi(reader, found) ||
      launch::read_slurm(reader, found)) {
    if (found.world == 1) found.local_rank = found.local_rank.value_or(0);
    return found;
  }
  found.local_rank = 0;
  found.local_world = 1;
  return found;
}

int pick_gpu(const Launch& launch, int gpus) {
  if (gpus <= 0) throw Error(Errc::kUsage, "the backend needs a GPU, and this machine has none");
  if (!launch.local_rank)
    throw Error(Errc::kUsage, "the launcher does not name the local rank of rank " +
                                  std::to_string(launch.rank) + " is; give `local_rank`");
  const int wanted = launch.local_world.value_or(*launch.local_rank + 1);
  if (wanted > gpus)
    throw Error(Errc::kUsage, "this machine shows " + std::to_string(gpus) + " GPU" +
                                  (gpus == 1 ? "" : "s") + " for at least " +
                                  std::to_string(wanted) +
                                  " ranks; start at most one rank a GPU, or compute on the CPU");
  return *launch.local_rank;
}

}  // namespace gbcompress
