#include "gbcompress/ranks.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace gbcompress {
namespace {
int own_rank = 0, ranks = 1;
}

void set_log_rank(int rank, int world) noexcept {
  own_rank = rank;
  ranks = world;
}

std::string rank_prefix() {
  return ranks > 1 ? "[rank " + std::to_string(own_rank) + "] " : std::string();
}

bool speaks_for_all() noexcept { return own_rank == 0; }

void log_line(std::string_view text) noexcept {
  try {
    const std::string line = "gbcompress: " + rank_prefix() + std::string(text) + "\n";
    std::string_view rest = line;
    while (!rest.empty()) {
      const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
      if (written > 0)
        rest.remove_prefix(static_cast<std::size_t>(written));
      else if (errno != EINTR)
        return;
    }
  } catch (...) {  // no memory for a message
  }
}

void end_rank(int status) noexcept {
  try {
    std::cout.flush();
  } catch (...) {  // a stream that is set to throw
  }
  std::fflush(nullptr);
  std::_Exit(status);
}

}  // namespace gbcompress
