// The module of `mount`: requests of the kernel, answered from an ExpandedFolder.
#define FUSE_USE_VERSION 35
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "gbcompress/error.h"
#include "gbcompress/version.h"
#include "mount_module.h"

namespace gbcompress::cli {
namespace {

using Kind = FolderEntry::Kind;

constexpr double kNever = 86400 * 365.0;  ///< seconds that what cannot change is kept
constexpr double kSoon = 1;               ///< of files as they are, whose size may change
constexpr std::size_t kMostPieces = 64;   ///< of a reply; more are copied together
constexpr std::size_t kAheadKiB = 1024;   ///< that the kernel reads ahead, where it may be set

const Mounting& mounting_of(fuse_req_t request) {
  return *static_cast<const Mounting*>(fuse_req_userdata(request));
}

/// Inode numbers are places in the tree, from 1.
const FolderEntry& entry_of(fuse_req_t request, fuse_ino_t inode) {
  return mounting_of(request).folder.entries()[inode - 1];
}

bool can_change(const FolderEntry& entry) { return entry.kind == Kind::kFile; }

/// @return an errno, or 0
int status_of(const FolderEntry& entry, fuse_ino_t inode, struct stat& status) {
  struct stat source {};
  const bool link = entry.kind == Kind::kLink;
  if ((link ? ::lstat(entry.source.c_str(), &source) : ::stat(entry.source.c_str(), &source)) != 0)
    return errno;
  status = {};
  status.st_ino = inode;
  status.st_uid = source.st_uid;
  status.st_gid = source.st_gid;
  status.st_mtim = source.st_mtim;
  status.st_ctim = source.st_ctim;
  status.st_atim = source.st_mtim;
  status.st_nlink = entry.kind == Kind::kFolder ? 2 : 1;
  const mode_t read = source.st_mode & 0444U;
  if (entry.kind == Kind::kFolder) {
    status.st_mode = S_IFDIR | read | read >> 2U;  // whoever may read it may enter it
  } else if (link) {
    status.st_mode = S_IFLNK | 0777U;
    status.st_size = source.st_size;
  } else {
    status.st_mode = S_IFREG | (can_change(entry) ? source.st_mode & 0555U : read);
    status.st_size = can_change(entry) ? source.st_size : static_cast<off_t>(entry.bytes);
  }
  status.st_blksize = 1 << 17;
  status.st_blocks = (status.st_size + 511) / 512;
  return 0;
}

void lookup(fuse_req_t request, fuse_ino_t parent, const char* name) {
  const auto& entries = mounting_of(request).folder.entries();
  const auto& children = entry_of(request, parent).children;
  const auto found = std::ranges::lower_bound(
      children, std::string_view(name), {},
      [&](std::size_t child) { return std::string_view(entries[child].name); });
  if (found == children.end() || entries[*found].name != name) {
    fuse_reply_err(request, ENOENT);
    return;
  }
  fuse_entry_param entry{};
  entry.ino = *found + 1;
  if (const int error = status_of(entries[*found], entry.ino, entry.attr)) {
    fuse_reply_err(request, error);
    return;
  }
  entry.attr_timeout = can_change(entries[*found]) ? kSoon : kNever;
  entry.entry_timeout = kNever;
  fuse_reply_entry(request, &entry);
}

void getattr(fuse_req_t request, fuse_ino_t inode, fuse_file_info*) {
  const FolderEntry& entry = entry_of(request, inode);
  struct stat status {};
  if (const int error = status_of(entry, inode, status))
    fuse_reply_err(request, error);
  else
    fuse_reply_attr(request, &status, can_change(entry) ? kSoon : kNever);
}

void readlink(fuse_req_t request, fuse_ino_t inode) {
  std::error_code failed;
  const std::string to =
      std::filesystem::read_symlink(entry_of(request, inode).source, failed).string();
  if (failed)
    fuse_reply_err(request, failed.value());
  else
    fuse_reply_readlink(request, to.c_str());
}

void readdir(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
             fuse_file_info*) {
  const auto& entries = mounting_of(request).folder.entries();
  const FolderEntry& folder = entry_of(request, inode);
  std::vector<char> reply(size);
  std::size_t used = 0;
  for (auto i = static_cast<std::size_t>(offset); i < folder.children.size() + 2; ++i) {
    const std::size_t at = i == 0 ? inode - 1 : i == 1 ? folder.parent : folder.children[i - 2];
    const char* name = i == 0 ? "." : i == 1 ? ".." : entries[at].name.c_str();
    struct stat status {};
    status.st_ino = at + 1;
    status.st_mode = entries[at].kind == Kind::kFolder ? S_IFDIR
                     : entries[at].kind == Kind::kLink ? S_IFLNK
                                                       : S_IFREG;
    const std::size_t added = fuse_add_direntry(request, reply.data() + used, size - used, name,
                                                &status, static_cast<off_t>(i + 1));
    if (added > size - used) break;
    used += added;
  }
  fuse_reply_buf(request, reply.data(), used);
}

void open(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
  const FolderEntry& entry = entry_of(request, inode);
  if ((file->flags & O_ACCMODE) != O_RDONLY) {
    fuse_reply_err(request, EROFS);
    return;
  }
  if (can_change(entry)) {
    const int opened = ::open(entry.source.c_str(), O_RDONLY | O_CLOEXEC);
    if (opened < 0) {
      fuse_reply_err(request, errno);
      return;
    }
    file->fh = static_cast<std::uint64_t>(opened);
  }
  file->keep_cache = can_change(entry) ? 0 : 1;
  if (fuse_reply_open(request, file) == -ENOENT && can_change(entry))  // the program is gone
    ::close(static_cast<int>(file->fh));
}

void release(fuse_req_t request, fuse_ino_t inode, fuse_file_info* file) {
  if (can_change(entry_of(request, inode))) ::close(static_cast<int>(file->fh));
  fuse_reply_err(request, 0);
}

/// Straight from the decoded stripes, where these are few.
void reply_pieces(fuse_req_t request, const std::vector<HeldBytes>& pieces) {
  std::vector<iovec> parts;
  if (pieces.size() <= kMostPieces) {
    for (const HeldBytes& piece : pieces)
      parts.push_back({const_cast<std::byte*>(piece.bytes.data()), piece.bytes.size()});
    fuse_reply_iov(request, parts.data(), static_cast<int>(parts.size()));
    return;
  }
  std::vector<char> all;
  for (const HeldBytes& piece : pieces) {
    const auto* first = reinterpret_cast<const char*>(piece.bytes.data());
    all.insert(all.end(), first, first + piece.bytes.size());
  }
  fuse_reply_buf(request, all.data(), all.size());
}

void read_plain(fuse_req_t request, std::size_t size, off_t offset, int file) {
  std::vector<char> bytes(size);
  std::size_t used = 0;
  while (used < size) {
    const ssize_t got =
        ::pread(file, bytes.data() + used, size - used, offset + static_cast<off_t>(used));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fuse_reply_err(request, errno);
      return;
    }
    if (got == 0) break;
    used += static_cast<std::size_t>(got);
  }
  fuse_reply_buf(request, bytes.data(), used);
}

void read(fuse_req_t request, fuse_ino_t inode, std::size_t size, off_t offset,
          fuse_file_info* file) {
  const Mounting& mounting = mounting_of(request);
  std::string reason;
  int error = EIO;
  try {
    if (can_change(entry_of(request, inode)))
      return read_plain(request, size, offset, static_cast<int>(file->fh));
    return reply_pieces(request,
                        mounting.folder.pieces(inode - 1, offset, static_cast<std::int64_t>(size)));
  } catch (const std::bad_alloc&) {
    error = ENOMEM;
    reason = "there is not enough memory to decode a stripe; use a smaller --cache";
  } catch (const std::exception& failed) {
    reason = failed.what();
  }
  fuse_reply_err(request, error);
  mounting.failed(reason);
}

const fuse_lowlevel_ops& operations() {
  static const fuse_lowlevel_ops ops = [] {
    fuse_lowlevel_ops made{};
    made.lookup = lookup;
    made.getattr = getattr;
    made.readlink = readlink;
    made.open = open;
    made.read = read;
    made.release = release;
    made.readdir = readdir;
    return made;
  }();
  return ops;
}

/// The last message of libfuse, which is the reason of a call that failed.
std::string& last_message() {
  static std::string message;
  return message;
}

void keep_message(fuse_log_level, const char* format, va_list arguments) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  char text[512];
  std::vsnprintf(text, sizeof text, format, arguments);
  last_message() = text;
  while (!last_message().empty() && last_message().back() == '\n') last_message().pop_back();
}

[[noreturn]] void fail(const std::string& what) {
  throw Error(Errc::kFailure, what + (last_message().empty() ? "" : ": ") +
                                  printable(last_message()) +
                                  "; mounting needs /dev/fuse, and `apt-get install fuse3` for "
                                  "users who are not root");
}

/// A mounted file system, unmounted at the end.
class Session {
 public:
  explicit Session(const Mounting& mounting) {
    const char* words[] = {"gbcompress", "-o",
                           "ro,default_permissions,fsname=gbcompress,subtype=gbz"};
    fuse_args arguments = FUSE_ARGS_INIT(3, const_cast<char**>(words));
    session_ = fuse_session_new(&arguments, &operations(), sizeof(fuse_lowlevel_ops),
                                const_cast<Mounting*>(&mounting));
    fuse_opt_free_args(&arguments);
    if (!session_) fail("a file system cannot be made");
    if (fuse_session_mount(session_, mounting.point.c_str()) == 0) return;
    fuse_session_destroy(session_);
    fail(printable(mounting.point.string()) + " cannot be mounted");
  }
  ~Session() {
    fuse_session_unmount(session_);
    fuse_session_destroy(session_);
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  fuse_session* get() const { return session_; }

 private:
  fuse_session* session_ = nullptr;
};

/// Only root may set it; without, the kernel reads ahead 128 KiB.
void read_ahead_of(const struct stat& mounted) {
  std::ofstream("/sys/class/bdi/" + std::to_string(major(mounted.st_dev)) + ":" +
                std::to_string(minor(mounted.st_dev)) + "/read_ahead_kb")
      << kAheadKiB;
}

/// Ends a loop in another thread.
class Watcher {
 public:
  Watcher(const Mounting& mounting, fuse_session* session)
      : ended_(::eventfd(0, EFD_CLOEXEC)), loop_(::pthread_self()) {
    // The loop waits in calls that a signal with a handler ends.
    struct sigaction action {};
    action.sa_handler = [](int) {};
    ::sigaction(SIGUSR2, &action, &before_);
    thread_ = std::thread([this, &mounting, session] { watch(mounting, session); });
  }
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;
  /// The loop has ended.
  ~Watcher() {
    done_ = true;
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(ended_, &one, sizeof one);
    thread_.join();
    ::sigaction(SIGUSR2, &before_, nullptr);
    ::close(ended_);
  }

 private:
  void watch(const Mounting& mounting, fuse_session* session) {
    struct stat status {};
    // Answered by the loop, so that it is at work.
    if (::stat(mounting.point.c_str(), &status) == 0 && !done_) {
      read_ahead_of(status);
      mounting.mounted();
    }
    pollfd waits[] = {{mounting.stop, POLLIN, 0}, {ended_, POLLIN, 0}};
    while (::poll(waits, 2, -1) < 0 && errno == EINTR) {
    }
    fuse_session_exit(session);
    // A signal that comes just before the loop waits ends nothing.
    while (!done_) {
      ::pthread_kill(loop_, SIGUSR2);
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  }

  int ended_;
  pthread_t loop_;
  struct sigaction before_ {};
  std::atomic<bool> done_ = false;
  std::thread thread_;
};

void serve(const Mounting& mounting) {
  fuse_set_log_func(keep_message);
  if (::access("/dev/fuse", F_OK) != 0)
    throw Error(Errc::kFailure,
                "/dev/fuse is missing, which mounting needs; load it with `modprobe fuse`, or give "
                "the container --device /dev/fuse --cap-add SYS_ADMIN");
  const Session session(mounting);
  const Watcher watcher(mounting, session.get());
  fuse_loop_config config{};
  config.clone_fd = 1;
  config.max_idle_threads = 10;
  const int status = fuse_session_loop_mt(session.get(), &config);
  if (status < 0)
    throw Error(Errc::kFailure,
                "the file system ended early: " + std::string(std::strerror(-status)));
}

}  // namespace
}  // namespace gbcompress::cli

extern "C" [[gnu::visibility("default")]] const gbcompress::cli::MountModule*
gbcompress_mount_module() {
  static const gbcompress::cli::MountModule module = {GBC_VERSION_STRING, gbcompress::cli::serve};
  return &module;
}
