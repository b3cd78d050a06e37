#pragma once
/// Encoded matrices of a large file that is being made, in a file beside it, so that a run that was
/// killed is continued by the same call.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gbcompress {

class KeptParts {
 public:
  /// A matrix as it was placed.
  struct Part {
    int step = 0;
    double error = 0;  ///< relative squared error
    std::vector<std::byte> section;
    bool row_steps = false;  ///< whether the section has offsets of rows
  };

  /// Takes what an earlier run left in `file`, as far as it is whole. Where the file cannot be
  /// made, or another process has it, nothing is kept.
  explicit KeptParts(std::filesystem::path file);
  /// Removes the file unless leave() was called.
  ~KeptParts();
  KeptParts(const KeptParts&) = delete;
  KeptParts& operator=(const KeptParts&) = delete;

  const std::filesystem::path& file() const noexcept { return file_; }
  bool active() const noexcept { return fd_ >= 0; }
  /// The file stays for a later run.
  void leave() noexcept { leave_ = true; }

  /// @param key  everything that the part depends on, at most kMostKey bytes. [thread-safe]
  std::optional<Part> find(const std::string& key) const;
  /// A full disk ends the keeping, not the run. [thread-safe]
  void add(const std::string& key, const Part& part);

  static constexpr std::size_t kMostKey = 1 << 16;

 private:
  struct Place {
    std::int64_t offset;
    std::uint64_t size, hash;  ///< of the section
    int step;
    double error;
    bool row_steps;
  };
  void scan();

  std::filesystem::path file_;
  int fd_ = -1;
  bool leave_ = false, full_ = false;
  std::int64_t end_ = 0;
  std::map<std::string, Place> places_;
  mutable std::mutex mutex_;
};

}  // namespace gbcompress
