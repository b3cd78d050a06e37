#pragma once
/// Messages of one rank of several. No LibTorch.

#include <string>
#include <string_view>

#include "gbcompress/export.h"

namespace GBC_API gbcompress {

/// Call once, as soon as the rank is known. [not thread-safe against the others]
void set_log_rank(int rank, int world) noexcept;
/// "[rank 2] ", or "" where there is one rank.
std::string rank_prefix();
/// Whether this rank draws progress and tells what concerns all: rank 0 does.
bool speaks_for_all() noexcept;
/// One line to stderr, "gbcompress: [rank 2] TEXT", in one piece, so that lines of several ranks on
/// one terminal do not mix. [thread-safe]
void log_line(std::string_view text) noexcept;

/// Ends the process of a rank that failed: flushes the standard streams and skips the static
/// destructors, of which LibTorch has a tenth of a second's worth. The other ranks may be waiting for
/// this one's processor.
[[noreturn]] void end_rank(int status) noexcept;

}  // namespace gbcompress
