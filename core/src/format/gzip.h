#pragma once
/// Files that may be gzipped (RFC 1952, by their first two bytes), inflated no further than the
/// reader needs.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "gbcompress/error.h"

namespace gbcompress {

/// A plain or gzipped file, read from front to back.
class MaybeGzip {
 public:
  /// @throws as MappedFile; Error(kTruncated) for an empty file
  explicit MaybeGzip(const std::filesystem::path& path);
  ~MaybeGzip();
  MaybeGzip(const MaybeGzip&) = delete;
  MaybeGzip& operator=(const MaybeGzip&) = delete;

  const std::string& label() const noexcept { return label_; }  ///< printable file name

  /// The next n bytes, fewer only at the end. Memory grows with what is really there, whatever n.
  /// @throws Error(kTruncated) for a gzip stream that breaks off; Error(kCorrupt) for damaged ones
  ///         and for bytes after its end that are not another gzip member
  std::vector<std::byte> read_up_to(std::uint64_t n);
  /// Exactly n bytes. @throws as read_up_to, and Error(kTruncated) where there are fewer
  std::vector<std::byte> read(std::uint64_t n);
  /// @throws Error(kCorrupt) where more content follows; as read_up_to
  void expect_end();

 private:
  struct Inflater;
  std::size_t next(std::span<std::byte> out);

  std::string label_;
  MappedFile file_;
  std::span<const std::byte> rest_;  ///< not read yet, as stored
  std::unique_ptr<Inflater> inflater_;
};

}  // namespace gbcompress
