#pragma once
/// `-` as a file: standard input that can be read more than once, standard output for a file's
/// bytes.

#include <cstdint>
#include <filesystem>
#include <string>

namespace gbcompress::cli {

/// The name under which standard input is opened.
inline constexpr const char* kStandardInput = "/dev/stdin";
/// Bytes that are taken from a pipe.
inline constexpr std::int64_t kMostPiped = std::int64_t{64} << 30;

/// Makes kStandardInput a file that can be opened and mapped: what a pipe brings is kept in an
/// unnamed file in TMPDIR.
/// @throws Error(kUsage) for a terminal; Error(kLimit) above `most` bytes; Error(kIo) where nothing
///         can be read; WriteError where TMPDIR is full; Error(kInterrupted)
void keep_standard_input(std::int64_t most = kMostPiped);

/// Whatever a verb prints goes to standard error from here on.
void results_to_standard_error();

/// @throws Error(kUsage) where standard output is a terminal
void check_standard_output();
/// Copies a file to standard output ("-") or to a device. @throws Error(kIo)
void send_to_stream(const std::filesystem::path& file, const std::string& sink);
/// Whether whoever read standard output has closed it, as `head` does.
bool standard_output_is_closed() noexcept;

}  // namespace gbcompress::cli
