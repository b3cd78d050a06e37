#include "ranks/rendezvous/socket_census.h"

#include <dirent.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cstdlib>
#include <memory>

namespace gbcompress {
namespace {

std::map<int, ino_t> sockets() {
  std::map<int, ino_t> result;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc/self/fd"), ::closedir);
  if (!folder) return result;
  while (const dirent* entry = ::readdir(folder.get())) {
    if (entry->d_name[0] == '.') continue;
    const int fd = std::atoi(entry->d_name);
    struct stat status {};
    if (::fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode)) result[fd] = status.st_ino;
  }
  return result;
}

}  // namespace

SocketCensus::SocketCensus() : before_(sockets()) {}

void SocketCensus::close_books() {
  opened_.clear();
  for (const auto& [fd, inode] : sockets()) {
    const auto old = before_.find(fd);
    if (old == before_.end() || old->second != inode) opened_[fd] = inode;
  }
}

void SocketCensus::shut_down() const noexcept {
  for (const auto& [fd, inode] : opened_) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_ino != inode) continue;
    int listens = 0;
    socklen_t size = sizeof listens;
    ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size);
    // No collective waits there, and Gloo ends the process when accept() fails.
    if (!listens) ::shutdown(fd, SHUT_RDWR);
  }
}

}  // namespace gbcompress
