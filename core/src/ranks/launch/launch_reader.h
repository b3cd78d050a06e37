#pragma once
/// Shared by the readers of launch.cpp and launch_jobs.cpp.

#include <optional>
#include <string>

#include "gbcompress/ranks.h"

namespace gbcompress::launch {

/// The environment, with numbers checked.
class Reader {
 public:
  explicit Reader(const Environment& environment) : environment_(environment) {}

  /// Empty counts as not set: that is how shells unset a variable for one command.
  std::optional<std::string> text(const char* name) const;
  bool has(const char* name) const { return text(name).has_value(); }
  /// @throws Error(kUsage) for anything but a number from `least` to `most`
  std::optional<int> number(const char* name, int least, int most) const;

 private:
  const Environment& environment_;
};

/// @param what  names the source in the message: "RANK", "--rank"
/// @throws Error(kUsage)
int parse_number(const std::string& text, const std::string& what, int least, int most);

/// Reads the pair and checks that one is inside the other.
/// @return false where neither is set. @throws Error(kUsage) where only one is
bool read_pair(const Reader& reader, const char* rank_name, const char* world_name, Launch& into);
/// The same for the ranks of one machine; both may be missing.
void read_local(const Reader& reader, const char* rank_name, const char* world_name, Launch& into);

/// Fills in the place to meet for a world above 1.
/// @param host  used where MASTER_ADDR is not set; empty: MASTER_ADDR must be
/// @param identity  something all ranks of this job share and other jobs do not; picks the port
void choose_master(const Reader& reader, const std::string& host, const std::string& identity,
                   Launch& into);

// One reader a launcher; each returns whether it was the one. [launch_jobs.cpp]
bool read_open_mpi(const Reader& reader, Launch& into);
bool read_pmi(const Reader& reader, Launch& into);
bool read_slurm(const Reader& reader, Launch& into);

/// "gpu[003-010,012],login1" -> "gpu003". @throws Error(kUsage) for anything malformed
std::string first_host(const std::string& list);

}  // namespace gbcompress::launch
