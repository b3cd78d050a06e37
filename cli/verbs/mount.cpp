// `mount`: packed folders as they were, without expanding them to a disk.
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <iostream>
#include <mutex>
#include <set>

#include "command.h"
#include "exit_status.h"
#include "file_names.h"
#include "gbcompress/error.h"
#include "gbcompress/expanded_folder.h"
#include "idle_options.h"
#include "model_options.h"
#include "mount_module.h"
#include "table.h"

namespace gbcompress::cli {
namespace po = boost::program_options;
namespace fs = std::filesystem;
namespace {

constexpr std::int64_t kCache = std::int64_t{256} << 20;

void add_mount_options(po::options_description& into) {
  into.add_options()("cache", po::value<std::string>()->value_name("N"),
                     "bytes of decoded stripes that stay in memory: 64MiB, 2GB (256MiB)");
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  std::error_code ignored;
  const fs::path inner = fs::weakly_canonical(path, ignored);
  const fs::path outer = fs::weakly_canonical(folder, ignored);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

[[noreturn]] void refuse_mount_point(const fs::path& point, int error) {
  const std::string name = printable(point.string()), word = quoted(point.string());
  if (error == ENOTCONN)
    throw Error(Errc::kUsage, name +
                                  " is a mount whose program has ended; unmount it with "
                                  "`fusermount3 -u " +
                                  word + "`");
  if (error == ENOENT)
    throw Error(Errc::kUsage, name + " does not exist; make it with `mkdir " + word + "`");
  throw Error(Errc::kUsage, name + " cannot be read: " + std::strerror(error));
}

/// @throws Error(kUsage) for what is no empty folder apart from `folder`
void check_mount_point(const fs::path& folder, const fs::path& point) {
  const std::string name = printable(point.string());
  struct stat status {};
  if (::stat(point.c_str(), &status) != 0) refuse_mount_point(point, errno);
  if (!S_ISDIR(status.st_mode))
    throw Error(Errc::kUsage, name + " is a file; name an empty folder to mount on");
  if (is_inside(point, folder) || is_inside(folder, point))
    throw Error(Errc::kUsage, name + " and " + printable(folder.string()) +
                                  " lie in one another; name an empty folder elsewhere");
  std::error_code failed;
  const bool empty = fs::is_empty(point, failed);
  if (failed) refuse_mount_point(point, failed.value());
  if (!empty)
    throw Error(Errc::kUsage,
                name + " is not empty, or is mounted already; name an empty folder to mount on");
}

/// Signals that end the mount, as a descriptor. Those that whoever started the program ignores are
/// ignored.
class StopSignals {
 public:
  StopSignals() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
      struct sigaction now {};
      if (::sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
        sigaddset(&signals, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &signals, &before_);
    descriptor_ = ::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~StopSignals() {
    signalfd_siginfo signal{};  // of the one that ended the mount
    while (::read(descriptor_, &signal, sizeof signal) > 0) {
    }
    ::close(descriptor_);
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  sigset_t before_{};
  int descriptor_ = -1;
};

void say_mounted(const Arguments& arguments, const ExpandedFolder& folder) {
  std::int64_t files = 0, bytes = 0;
  for (const FolderEntry& entry : folder.entries()) {
    files += entry.kind == FolderEntry::Kind::kExpanded ? 1 : 0;
    bytes += entry.kind == FolderEntry::Kind::kExpanded ? entry.bytes : 0;
  }
  const auto& words = arguments.words();
  if (arguments.json())
    print_json({{"folder", words[0]},
                {"mount_point", words[1]},
                {"expanded_files", files},
                {"expanded_bytes", bytes}});
  else
    std::cout << with_commas(files) << (files == 1 ? " file" : " files") << " of "
              << with_commas(bytes) << " bytes at " << printable(words[1])
              << "; Ctrl-C or `fusermount3 -u " << quoted(words[1]) << "` unmounts it\n";
  std::cout.flush();
}

int run_mount(const Arguments& arguments) {
  const fs::path source = arguments.words()[0], point = arguments.words()[1];
  std::vector<std::string> idle;
  note_idle(arguments, {"plugin"}, "mount runs no layer types", idle);
  say_notes(arguments, idle);
  const std::int64_t cache =
      arguments.has("cache") ? parse_bytes(arguments.text("cache"), "--cache") : kCache;
  if (cache < std::int64_t{1} << 20)
    throw Error(Errc::kUsage,
                "--cache must be at least 1MiB, not " + printable(arguments.text("cache")));
  const ExpandedFolder folder(source, DecodedCache(cache));
  check_mount_point(source, point);
  const StopSignals stop;
  std::mutex mutex;
  std::set<std::string> said;  // programs try again
  serve_mount({.folder = folder,
               .point = fs::absolute(point),
               .stop = stop.descriptor(),
               .mounted = [&] { say_mounted(arguments, folder); },
               .failed =
                   [&](const std::string& reason) {
                     const std::lock_guard lock(mutex);
                     if (said.size() < 1000 && said.insert(reason).second) say(reason);
                   }});
  return kDone;
}

}  // namespace

const Verb& mount_verb() {
  static const Verb verb = {"mount",
                            "Show a packed folder as its original files, which are decoded as they "
                            "are read.",
                            "FOLDER MOUNTPOINT [--cache N]",
                            "  gbcompress mount packed/ model/\n"
                            "  gbcompress mount packed/ model/ --cache 1GB &\n"
                            "  fusermount3 -u model/\n",
                            2,
                            2,
                            add_mount_options,
                            run_mount};
  return verb;
}

}  // namespace gbcompress::cli
